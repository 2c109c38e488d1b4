import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_local.ports import LOOPBACK
from kb_local.state import Home, ProcessState, StackState
from tests.integration.local.conftest import NO_MODELS, PACKAGES, living

KB = str(Path(sys.executable).with_name("kb"))
# A shell that runs the tests in the background has them ignore Ctrl-C, and with them all that they start.
HEEDS_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
# A little less than pytest's limit: a test that fails must not leave a stack.
TIMEOUT_S = 500


class CommandLine:
    """The `kb` command as a user runs it, on a stack with one dummy service."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.folder = folder.parent
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KB_")},
            "KB_HOME": str(folder),
            "KB_LOCAL_SERVICES": "kb_dummy",
            "KB_LOCAL_MODELS_API_BASE": NO_MODELS,
            "PYTHONPATH": str(PACKAGES),
        }

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [KB, *arguments],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def pids(self) -> list[int]:
        state = self.home.read_state()
        return [pid for pid in (state.supervisor_pid, *(each.pid for each in state.processes)) if pid is not None]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path / ".kb")
    yield command_line
    command_line.run("down")


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while living(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert living(pids) == []


def up(kb: CommandLine) -> dict[str, Any]:
    result = kb.run("up", "--json")
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def assert_restart_replaces_a_frozen_process(kb: CommandLine) -> None:
    frozen = process_named(kb, "kb-dummy")
    assert frozen.pid is not None
    os.kill(frozen.pid, signal.SIGSTOP)
    result = kb.run("restart", "kb-dummy")
    successor = process_named(kb, "kb-dummy")
    assert result.stdout == f"restarted kb-dummy: it is ready as process {successor.pid}\n", result.stderr
    assert successor.condition == "ready"
    assert living([frozen.pid]) == []
    unknown = kb.run("restart", "indexer")
    assert unknown.returncode == 1
    assert "the stack has no process 'indexer'\n  remedy: name one of mongod" in unknown.stderr


def process_named(kb: CommandLine, name: str) -> ProcessState:
    return next(process for process in kb.home.read_state().processes if process.name == name)


def test_a_stack_is_started_once_shown_and_stopped(kb: CommandLine) -> None:
    first = up(kb)
    assert first["base_url"].startswith(f"http://{LOOPBACK}:")
    assert up(kb) == first

    status = kb.run("status", "--json")
    assert status.returncode == 0
    shown = json.loads(status.stdout)
    assert shown["base_url"] == first["base_url"]
    assert {each["name"]: each["condition"] for each in shown["processes"]} == dict.fromkeys(
        ["mongod", "search-node", "broker", "zygote", "kb-dummy", "gateway"], "ready"
    )
    assert "kb-dummy" in kb.run("status").stdout

    assert_restart_replaces_a_frozen_process(kb)
    pids = kb.pids()
    modes = {log.name: stat.S_IMODE(log.stat().st_mode) for log in kb.home.logs.iterdir()}
    names = ["supervisor", *(each["name"] for each in shown["processes"])]
    assert modes == {f"{name}.log": 0o600 for name in names}
    assert kb.run("down").stdout == f"stopped the stack in {kb.home.folder}; the data is kept\n"
    assert living(pids) == []
    assert kb.run("status").returncode == 1
    assert "no stack is running" in kb.run("restart", "kb-dummy").stderr
    assert json.loads(kb.run("down", "--json").stdout) == {"was_running": False, "folder": str(kb.home.folder)}


def test_a_stack_is_used_from_anywhere_and_ends_when_its_folder_is_deleted(kb: CommandLine, tmp_path: Path) -> None:
    up(kb)
    pids = kb.pids()
    # As in another folder, without any setting.
    kb.env = {**kb.env, "KB_HOME": "", "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    kb.folder = tmp_path / "elsewhere"
    kb.folder.mkdir()
    assert json.loads(kb.run("status", "--json").stdout)["folder"] == str(kb.home.folder)
    # At once: deleted file by file, it may get new ones meanwhile.
    shutil.rmtree(kb.home.folder.rename(tmp_path / "deleted"), ignore_errors=True)
    wait_until_gone(pids)
    assert not kb.home.folder.exists(), "nothing is written for a stack that is gone"
    assert "no stack is running" in kb.run("down").stdout


@pytest.mark.prometheus
def test_prometheus_and_alertmanager_run_beside_the_stack_where_status_says(kb: CommandLine) -> None:
    result = kb.run("up", "--observe", "--json")
    assert result.returncode == 0, result.stderr
    addresses = json.loads(result.stdout)
    shown = json.loads(kb.run("status", "--json").stdout)
    printed = kb.run("status").stdout
    for name in ("prometheus_url", "alertmanager_url"):
        assert httpx.get(f"{addresses[name]}/-/ready").status_code == 200
        assert shown[name] == addresses[name]
        assert addresses[name] in printed
    assert {each["name"] for each in shown["processes"]} >= {"prometheus", "alertmanager"}
    assert "KB_LOCAL_OBSERVE" not in httpx.get(f"http://{LOOPBACK}:{port_of(shown, 'kb-dummy')}/").text
    pids = kb.pids()
    assert kb.run("down").returncode == 0
    assert living(pids) == []
    assert json.loads(kb.run("status", "--json").stdout)["prometheus_url"] is None


def port_of(shown: dict[str, Any], name: str) -> int:
    port: int = next(each["port"] for each in shown["processes"] if each["name"] == name)
    return port


def test_a_killed_supervisor_takes_all_with_it_and_ctrl_c_stops_the_next_one_in_order(kb: CommandLine) -> None:
    first = up(kb)
    pids = kb.pids()
    supervisor_pid = kb.home.read_state().supervisor_pid
    assert supervisor_pid is not None
    os.kill(supervisor_pid, signal.SIGKILL)
    wait_until_gone(pids)
    assert json.loads(kb.run("status", "--json").stdout)["phase"] == "stopped"

    with subprocess.Popen(
        [KB, "up", "--foreground"], env=kb.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as foreground:
        assert foreground.stdout is not None
        assert foreground.stderr is not None
        printed = ""
        while not printed.endswith("`kb status` shows the processes, `kb down` stops them.\n"):
            line = foreground.stdout.readline()
            assert line, printed
            printed += line
        # The same address and key as before, although nothing was shut down in order.
        assert first["base_url"] in printed
        assert first["api_key"] in printed
        pids = kb.pids()
        foreground.send_signal(signal.SIGINT)
        assert foreground.wait(TIMEOUT_S) == 0
        assert foreground.stderr.read().endswith(f"stopped the stack in {kb.home.folder}; the data is kept\n")
    assert living(pids) == []


def test_a_stack_that_cannot_start_says_what_to_do(kb: CommandLine) -> None:
    kb.env["KB_MONGOD"] = "/nonexistent/mongod"
    result = kb.run("up")
    assert result.returncode == 1
    assert "/nonexistent/mongod cannot be run" in result.stderr
    assert "remedy: set KB_MONGOD" in result.stderr
    assert kb.run("status").returncode == 1


def in_terminal(kb: CommandLine, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HEEDS_CTRL_C, KB, *arguments]
    return subprocess.Popen(command, env=kb.env, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_stops_what_was_started(kb: CommandLine) -> None:
    with in_terminal(kb, "up") as interrupted:
        deadline = time.monotonic() + TIMEOUT_S
        while not kb.home.read_state().processes and time.monotonic() < deadline:
            time.sleep(0.02)
        pids = kb.pids()
        interrupted.send_signal(signal.SIGINT)
        printed = interrupted.communicate(timeout=TIMEOUT_S)[1]
    assert living(pids) == []
    assert not kb.home.is_locked()
    assert interrupted.returncode == 130
    assert f"error: interrupted; the stack in {kb.home.folder} was stopped\n" in printed


def test_ctrl_c_says_that_the_stack_of_another_command_goes_on(kb: CommandLine) -> None:
    kb.home.prepare()
    ready = ProcessState(name="mongod", pid=None, port=1, condition="ready", restarts=0, log="")
    with kb.home.locked():
        kb.home.write_state(StackState(phase="starting", supervisor_pid=os.getpid(), processes=[ready]))
        with in_terminal(kb, "up") as interrupted:
            assert interrupted.stderr is not None
            assert interrupted.stderr.readline() == "  ready mongod\n"
            interrupted.send_signal(signal.SIGINT)
            printed = interrupted.communicate(timeout=TIMEOUT_S)[1]
    assert interrupted.returncode == 130
    assert f"the stack in {kb.home.folder} keeps running, because another command started it" in printed
    assert "`kb down` stops it" in printed
