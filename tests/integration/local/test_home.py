import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kb_local import ports
from kb_local.errors import UnusableHome, UnusablePort
from kb_local.ports import LOOPBACK, Ports, free_port, is_free
from kb_local.state import Home, ProcessState, StackState, find_process, home_of

EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ".kb")
    home.prepare()
    return home


def test_a_folder_of_a_newer_version_is_refused_and_left_alone(home: Home) -> None:
    (home.folder / "format").write_text("2\n")
    with pytest.raises(UnusableHome, match="format '2'"):
        home.prepare()
    assert (home.folder / "format").read_text() == "2\n"


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnusableHome) as refusal:
        Home(tmp_path / "file" / ".kb").prepare()
    assert "KB_HOME" in refusal.value.remedy


def test_the_folder_is_the_one_that_kb_home_names_else_in_the_current_directory(tmp_path: Path) -> None:
    assert home_of({"KB_HOME": str(tmp_path)}).folder == tmp_path
    assert home_of({}).folder == Path.cwd() / ".kb"


def test_secrets_are_made_once_and_only_their_user_can_read_them(home: Home) -> None:
    secrets = home.read_secrets()
    assert home.read_secrets() == secrets
    assert secrets.api_key.startswith("kb_")
    assert len(secrets.api_key.split("_")) == 3
    assert stat.S_IMODE((home.folder / "secrets.json").stat().st_mode) == 0o600
    assert secrets.api_key not in repr(secrets)
    assert secrets.provider_keys not in repr(secrets)


def test_a_folder_of_before_gets_the_secret_it_lacks_and_keeps_the_others(home: Home) -> None:
    before = home.read_secrets()
    kept = before.model_dump(exclude={"provider_keys"})
    (home.folder / "secrets.json").write_text(json.dumps(kept))
    after = home.read_secrets()
    assert after.model_dump(exclude={"provider_keys"}) == kept
    assert after.provider_keys != before.provider_keys
    assert home.read_secrets() == after


def test_the_state_is_read_as_it_was_written(home: Home) -> None:
    process = ProcessState(name="mongod", pid=1, port=2, condition="ready", restarts=3, log="x")
    state = StackState(phase="ready", base_url="http://127.0.0.1:1", processes=[process], ports={"mongod": 2})
    home.write_state(state)
    assert home.read_state() == state
    assert sorted(path.name for path in home.folder.iterdir()) == ["format", "logs", "state.json"]


def test_a_state_that_is_not_understood_is_explained(home: Home) -> None:
    (home.folder / "state.json").write_text(json.dumps({"phase": "levitating"}))
    with pytest.raises(UnusableHome, match=r"state\.json cannot be read"):
        home.read_state()


def test_only_one_supervisor_has_a_folder_and_a_killed_one_no_longer_does(home: Home) -> None:
    program = f"""
import time
from pathlib import Path
from kb_local.state import Home
with Home(Path({str(home.folder)!r})).locked():
    print("locked", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert home.is_locked()
        with pytest.raises(UnusableHome, match="already running in"), home.locked():
            pass
        holder.kill()
    assert not home.is_locked()


def test_a_pid_that_now_is_another_process_is_not_taken_for_the_one_recorded() -> None:
    assert find_process(os.getpid(), 1.0) is None
    assert find_process(None, None) is None


def test_ports_stay_the_same_while_they_are_free() -> None:
    first = Ports()
    port = first.reserve("mongod")
    assert first.reserve("mongod") == port
    assert Ports(first.remembered).reserve("mongod") == port


def test_a_port_that_was_taken_meanwhile_is_replaced() -> None:
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        assert not is_free(taken)
        assert Ports({"mongod": taken}).reserve("mongod") != taken
        with pytest.raises(UnusablePort, match=f"port {taken} is in use"):
            Ports().reserve_exactly("gateway", taken)


def test_no_two_servers_get_the_same_port() -> None:
    port = free_port()
    taken = Ports({"a": port, "b": port})
    assert taken.reserve("a") == port
    assert taken.reserve("b") != port


def test_a_port_that_was_found_free_is_not_given_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "_RANGE", range(port, port + 1))
    with pytest.raises(UnusablePort, match="no free port"):
        free_port()
    look = f"from kb_local import ports; ports._RANGE = range({port}, {port + 1}); ports.free_port()"
    another = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert "no free port" in another.stderr


@pytest.mark.skipif(not EPHEMERAL_PORTS.exists(), reason="Linux tells its range there")
def test_a_free_port_is_none_that_an_outgoing_connection_may_get() -> None:
    lowest, highest = map(int, EPHEMERAL_PORTS.read_text().split())
    assert all(not lowest <= free_port() <= highest for _ in range(50))
