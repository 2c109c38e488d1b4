"""What `kb` says when it cannot do what it was asked."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from kb_client.cli import create_app
from kb_local import daemon, display, doctor
from kb_local.errors import UnfitMachine, UnusableHome, UnusablePort
from kb_local.ports import LOOPBACK
from kb_local.state import Home, StackState
from kb_local.supervisor import supervise
from tests.integration.local.conftest import NO_MODELS

UNPRIVILEGED_USER = 65534
"""A user who owns nothing."""
# What a command imports when it is called is not to be read by that user.
IMPORTED = (daemon, display)
APP = create_app()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in [name for name in os.environ if name.startswith("KB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KB_HOME", str(tmp_path / ".kb"))
    monkeypatch.setenv("KB_LOCAL_MODELS_API_BASE", NO_MODELS)
    return Home(tmp_path / ".kb")


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, 0))
        squatter.listen()
        yield squatter.getsockname()[1]


def kb(*arguments: str) -> Result:
    return CliRunner().invoke(APP, arguments)


@pytest.mark.parametrize("wanted", ["eighty", "0", "65536", "-1"])
def test_an_invalid_port_is_reported_by_the_command(home: Home, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv("KB_PORT", wanted)
    refused = kb("up")
    assert refused.exit_code == 1
    assert f"error: KB_PORT: '{wanted}' is not a port number" in refused.stderr
    assert "remedy: " in refused.stderr
    assert not home.folder.exists(), "nothing was started"


def test_a_port_in_use_is_reported_by_the_command(
    home: Home, monkeypatch: pytest.MonkeyPatch, port_in_use: int
) -> None:
    monkeypatch.setenv("KB_PORT", str(port_in_use))
    refused = kb("up")
    assert refused.exit_code == 1
    assert f"error: KB_PORT: port {port_in_use} is in use" in refused.stderr
    assert not home.folder.exists(), "nothing was started"


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("kb_api,kb_sarch", "'kb_sarch' is not a service"),
        ("kb-api", "'kb-api' is not a service"),
        ("kb_api,,kb_search", "'' is not a service"),
        ("kb_api,kb_api", "'kb_api' is named twice"),
    ],
)
def test_an_unknown_service_is_reported_by_the_command(
    home: Home, monkeypatch: pytest.MonkeyPatch, named: str, problem: str
) -> None:
    monkeypatch.setenv("KB_LOCAL_SERVICES", named)
    refused = kb("up")
    assert refused.exit_code == 1
    assert f"error: KB_LOCAL_SERVICES: {problem}" in refused.stderr
    assert "kb_indexer:2" in refused.stderr
    assert not home.folder.exists(), "nothing was started"


async def test_all_errors_are_reported_at_once(home: Home, port_in_use: int) -> None:
    environment = {"KB_HOME": str(home.folder), "KB_PORT": str(port_in_use), "KB_LOCAL_SERVICES": "kb_sarch"}
    with pytest.raises(UnfitMachine) as refusal:
        await doctor.require_fit({**environment, "KB_LOCAL_MODELS_API_BASE": NO_MODELS})
    assert f"KB_PORT: port {port_in_use} is in use" in str(refusal.value)
    assert "KB_LOCAL_SERVICES: 'kb_sarch' is not a service" in str(refusal.value)


async def test_little_memory_is_warned_of_and_no_reason_not_to_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MIN_MEMORY_GB", 1e9)
    monkeypatch.setattr(doctor, "MIN_FREE_DISK_GB", 1e9)
    warnings = await doctor.require_fit({"KB_HOME": str(home.folder), "KB_LOCAL_MODELS_API_BASE": NO_MODELS})
    assert [check.name for check in warnings] == ["disk", "memory"]


async def test_a_disk_without_room_for_a_new_database_is_a_reason_not_to_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_DISK_GB", 1e9)
    monkeypatch.setattr(doctor, "LEAST_FREE_DISK_GB", 1e9)
    with pytest.raises(UnfitMachine, match=r"disk: .* GB free"):
        await doctor.require_fit({"KB_HOME": str(home.folder), "KB_LOCAL_MODELS_API_BASE": NO_MODELS})


def test_status_says_that_a_full_disk_keeps_its_news_away(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    assert kb("status").stderr == ""
    monkeypatch.setattr(doctor, "MIN_FREE_DISK_GB", 1e9)
    monkeypatch.setattr(doctor, "LEAST_FREE_DISK_GB", 1e9)
    printed = kb("status").stderr
    assert "GB free; the state shown may be outdated" in printed
    assert "remedy: free" in printed


def test_a_supervisor_that_cannot_use_the_port_says_so_as_itself(
    home: Home, monkeypatch: pytest.MonkeyPatch, port_in_use: int
) -> None:
    monkeypatch.setenv("KB_PORT", str(port_in_use))
    home.prepare()
    home.write_state(StackState(supervisor_pid=1, supervisor_started_at=1.0))
    with pytest.raises(UnusablePort):
        asyncio.run(supervise(os.environ, on_change=lambda _: None))
    state = home.read_state()
    assert state.failure is not None
    assert state.failure.problem == f"port {port_in_use} is in use"
    # By its pid the command that launched it knows whose failure this is.
    assert (state.phase, state.supervisor_pid) == ("failed", os.getpid())


def test_down_names_the_folder_it_acts_on(home: Home) -> None:
    home.prepare()
    assert kb("down").stdout == f"no stack is running in {home.folder}\n"
    assert kb("down", "--json").stdout == f'{{"was_running": false, "folder": "{home.folder}"}}\n'


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that all users may enter, unlike those of pytest, with the home in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("KB_HOME", str(folder / ".kb"))
        yield folder


@contextmanager
def as_other_user(home: Home, *, may_read: bool) -> Iterator[None]:
    """Be a user who may not write into the folder: root becomes an unprivileged user, others lose their rights."""
    if os.geteuid() != 0:
        home.folder.chmod(0o500 if may_read else 0)
        yield
        home.folder.chmod(0o700)
        return
    home.folder.chmod(0o755 if may_read else 0o700)
    os.seteuid(UNPRIVILEGED_USER)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(("command", "may_read"), [("up", False), ("down", False), ("status", False), ("up", True)])
def test_a_folder_of_another_user_is_reported_without_a_traceback(
    open_folder: Path, command: str, *, may_read: bool
) -> None:
    home = Home(open_folder / ".kb")
    home.prepare()
    home.write_state(StackState())
    (home.folder / "lock").touch()
    # Other users may not read the imported files.
    kb(command, "--help")
    with as_other_user(home, may_read=may_read):
        refused = kb(command)
    assert refused.exit_code == 1, refused.exception
    assert refused.stderr == (
        f"error: {home.folder} cannot be used by this user: it belongs to {psutil.Process().username()}\n"
        "  remedy: run `kb` as the owner of the folder, or choose another one with KB_HOME\n"
    )


@pytest.mark.parametrize("may_read", [True, False])
def test_a_folder_of_another_user_fails_a_check_of_doctor_and_is_not_prepared(
    open_folder: Path, *, may_read: bool
) -> None:
    home = Home(open_folder / ".kb")
    home.prepare()
    with as_other_user(home, may_read=may_read):
        assert not doctor.check_folder(home).ok
        assert doctor.check_disk(home).found.endswith("GB free")
        with pytest.raises(UnusableHome, match="it belongs to"):
            home.prepare()
