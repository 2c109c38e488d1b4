"""A stack is found from any folder, by its user alone."""

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kb_client.errors import UnusableConfiguration
from kb_local.connection import find_local_stack
from kb_local.errors import SeveralStacks
from kb_local.running_stacks import describe_others, find_home, nearest_home, registered, running_stacks
from kb_local.state import Home, StackState, write_private


class Machine:
    """A user with a state directory, and stacks that this process claims to run."""

    def __init__(self, root: Path, running: ExitStack) -> None:
        self.root = root
        self.environment = {"XDG_STATE_HOME": str(root / "state")}
        self.registry = root / "state/kb/stacks"
        self._running = running

    def make(self, name: str) -> Home:
        home = Home(self.folder(name) / ".kb")
        home.prepare()
        return home

    def run(self, name: str) -> Home:
        home = self.make(name)
        self._running.enter_context(home.locked())
        # A process has one stack; that of another name stands in for another process.
        before = set(self.registry.glob("*")) if self.registry.exists() else set()
        self._running.enter_context(registered(home, self.environment))
        for path in set(self.registry.glob("*.json")) - before:
            path.rename(path.with_name(f"{name}.json"))
        home.write_state(StackState(phase="ready", base_url=f"http://127.0.0.1:1/{name}"))
        return home

    def folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for name in [name for name in os.environ if name.startswith("KB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with ExitStack() as running:
        yield Machine(tmp_path, running)


def test_the_only_stack_is_found_from_a_folder_that_has_none(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    home = machine.run("alpha")
    assert find_home(machine.environment).folder == home.folder
    found = find_local_stack()
    assert found == {
        "base_url": "http://127.0.0.1:1/alpha",
        "organization": "local",
        "api_key": home.read_secrets().api_key,
    }
    assert capsys.readouterr().err == f"using the stack in {home.folder}\n"


def test_of_several_stacks_each_is_named_and_none_is_chosen(machine: Machine) -> None:
    folders = [machine.run(name).folder for name in ("beta", "alpha two")]
    with pytest.raises(SeveralStacks) as refusal:
        find_home(machine.environment)
    assert all(str(folder) in str(refusal.value) for folder in folders)
    assert f"export KB_HOME='{machine.root}/alpha two/.kb'" in refusal.value.remedy
    with pytest.raises(UnusableConfiguration, match="2 stacks run"):
        find_local_stack()
    chosen = find_home({**machine.environment, "KB_HOME": str(folders[0])})
    assert chosen.folder == folders[0]


def test_the_stack_of_this_folder_or_one_above_it_comes_before_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.run("alpha")
    own = machine.run("beta")
    (machine.root / "beta/deep").mkdir()
    monkeypatch.chdir(machine.root / "beta/deep")
    assert find_home(machine.environment).folder == own.folder
    found = find_local_stack()
    assert found is not None
    assert found["base_url"].endswith("/beta")
    assert capsys.readouterr().err == "", "nothing is far away"


def test_documents_of_a_folder_whose_stack_does_not_run_go_to_no_other_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, stopped = machine.run("alpha"), machine.make("beta")
    monkeypatch.chdir(machine.root / "beta")
    with pytest.raises(UnusableConfiguration) as refusal:
        find_local_stack()
    assert str(stopped.folder) in str(refusal.value)
    assert f"export KB_HOME={running.folder}" in str(refusal.value)


def test_a_stack_that_is_starting_is_named_instead_of_unknown(machine: Machine) -> None:
    home = machine.run("alpha")
    home.write_state(StackState(phase="starting"))
    with pytest.raises(UnusableConfiguration, match="is starting"):
        find_local_stack()


def test_without_a_stack_nothing_is_found(machine: Machine) -> None:
    assert find_local_stack() is None
    assert describe_others(Home(Path.cwd() / ".kb"), machine.environment) is None


def test_what_a_crashed_supervisor_left_is_removed(machine: Machine) -> None:
    machine.run("alpha")
    path = machine.registry / "alpha.json"
    left = path.read_text().replace('"supervisor_started_at":', '"supervisor_started_at":1')
    write_private(machine.registry / "crashed.json", left)
    write_private(machine.registry / "unreadable.json", "{")
    assert len(running_stacks(machine.environment)) == 1
    assert sorted(each.name for each in machine.registry.iterdir()) == ["alpha.json", "unreadable.json"]


def test_a_file_of_another_machine_with_the_same_home_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run("alpha")
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert running_stacks(machine.environment) == []
    assert (machine.registry / "alpha.json").exists()


def test_only_its_user_sees_what_runs_and_where(machine: Machine) -> None:
    home = machine.run("alpha")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (machine.registry, machine.registry / "alpha.json")]
    assert modes == [0o700, 0o600]
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert home.read_secrets().api_key not in (machine.registry / "alpha.json").read_text()


def test_a_registration_ends_with_its_stack(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    with registered(Home(tmp_path / ".kb"), environment):
        assert [each.folder for each in running_stacks(environment)] == [tmp_path / ".kb"]
    assert list((tmp_path / "kb/stacks").iterdir()) == []


def test_the_state_directory_is_that_of_xdg_unless_it_is_relative(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    with registered(Home(tmp_path / ".kb"), home):
        assert len(list((tmp_path / ".local/state/kb/stacks").iterdir())) == 1
        assert len(running_stacks({**home, "XDG_STATE_HOME": "relative"})) == 1
        assert running_stacks({**home, "XDG_STATE_HOME": str(tmp_path / "other")}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_above_that_another_user_made_is_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.make("shared")
    os.chown(home.folder, 65534, 65534)
    (machine.root / "shared/deep").mkdir()
    monkeypatch.chdir(machine.root / "shared/deep")
    assert nearest_home() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_directory_of_another_user_is_not_read(machine: Machine) -> None:
    machine.run("alpha")
    os.chown(machine.registry, 65534, 65534)
    assert running_stacks(machine.environment) == []


def test_from_a_folder_that_was_deleted_the_running_stack_is_found(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.run("alpha")
    gone = machine.folder("gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_home(machine.environment).folder == home.folder


def test_a_stack_notices_that_its_folder_was_deleted_or_replaced(tmp_path: Path) -> None:
    home = Home(tmp_path / ".kb")
    home.prepare()
    with home.locked() as has_folder:
        assert has_folder()
        home.folder.rename(tmp_path / "away")
        assert not has_folder()
        home.prepare()
        with home.locked() as has_new_folder:
            assert has_new_folder()
            assert not has_folder()
