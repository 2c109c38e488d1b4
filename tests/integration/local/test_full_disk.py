"""What a disk without room may not end."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from kb_local.server import Server
from kb_local.stack import Stack
from kb_local.state import Home, StackState
from kb_local.supervisor import Supervisor
from tests.integration.local.conftest import NO_MODELS
from tests.waiting import until


class EmptyStack(Stack):
    """Starts nothing."""

    is_stopped = False

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        self.is_stopped = True

    @property
    def servers(self) -> list[Server]:
        return []

    @property
    def base_url(self) -> str:
        return "http://127.0.0.1:1"


class Disk:
    """Takes states while it has room."""

    def __init__(self) -> None:
        self.has_room = False
        self.refused = 0
        self.taken: list[StackState] = []

    def write_state(self, state: StackState) -> None:
        if not self.has_room:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.taken.append(state)


async def test_a_stack_outlives_a_full_disk_and_writes_its_state_once_there_is_room(tmp_path: Path) -> None:
    disk, stop = Disk(), asyncio.Event()
    stack = EmptyStack(tmp_path / ".kb", models_api_base=NO_MODELS)
    with structlog.testing.capture_logs() as logged:
        running = asyncio.create_task(Supervisor(stack, on_change=disk.write_state).run(stop))
        await until(lambda: disk.refused > 2 or running.done())
        assert not running.done()
        assert not stack.is_stopped

        disk.has_room = True
        await until(lambda: bool(disk.taken) or running.done())
        assert disk.taken[-1].phase == "ready"
        disk.has_room = False
        stop.set()
        await running
    assert stack.is_stopped
    failures = [entry for entry in logged if entry["event"] == "state.write_failed"]
    assert [entry["reason"] for entry in failures] == ["No space left on device"] * 2, (
        "once for each time the disk was full"
    )


@contextlib.contextmanager
def limit_file_size(size_bytes: int) -> Iterator[None]:
    """Have this process's writes refused beyond a size, which cuts a file off as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_state_that_was_cut_off_is_neither_read_nor_left_in_the_folder(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    home.write_state(StackState(phase="ready"))
    before = sorted(tmp_path.iterdir())
    with limit_file_size(4096), pytest.raises(OSError, match="too large"):
        home.write_state(StackState(phase="failed", base_url="x" * 100_000))
    assert sorted(tmp_path.iterdir()) == before
    assert home.read_state() == StackState(phase="ready")
