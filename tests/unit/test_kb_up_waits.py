"""`kb up` on a machine that has much else to do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_local import daemon, progress_deadline
from kb_local.daemon import STUCK_AFTER_S
from kb_local.errors import ServerDied
from kb_local.state import Home, StackState


class SlowStack:
    """A stack that another command has started, with a long while between two changes of its state."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.environment = {"KB_HOME": str(home.folder)}
        self.looks = 0
        self.ready_after = 20
        self.is_stuck = False
        monkeypatch.setattr(daemon, "POLL_INTERVAL_S", 0)
        monkeypatch.setattr(progress_deadline, "monotonic", lambda: self.looks * STUCK_AFTER_S * 0.6)

    def go_on(self, _: StackState) -> None:
        """Come further, whenever the command has looked."""
        self.looks += 1
        if self.looks == self.ready_after:
            self.home.write_state(StackState(phase="ready"))
        elif not self.is_stuck:
            self.home.write_state(StackState(phase="starting", ports={"mongod": self.looks}))


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStack]:
    home = Home(tmp_path / ".kb")
    home.prepare()
    with home.locked():
        yield SlowStack(home, monkeypatch)


def test_a_start_is_waited_for_as_long_as_it_makes_progress(slow: SlowStack) -> None:
    daemon.start(slow.environment, on_change=slow.go_on)
    assert slow.looks == slow.ready_after + 1


def test_a_start_without_progress_is_given_up(slow: SlowStack) -> None:
    slow.is_stuck = True
    with pytest.raises(ServerDied, match="the supervisor has made no progress for 300 s"):
        daemon.start(slow.environment, on_change=slow.go_on)
    assert slow.looks == 3


def test_the_cpu_that_the_supervisor_uses_is_progress_and_that_of_the_command_is_not() -> None:
    state = StackState()
    before, without_supervisor = daemon._observe_progress(state, os.getpid()), daemon._observe_progress(state, None)
    while daemon._observe_progress(state, os.getpid()) == before:
        pass
    assert daemon._observe_progress(state, None) == without_supervisor
