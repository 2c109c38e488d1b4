import asyncio
import contextlib
import math
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from kb_local.child import Child, describe_exit
from kb_local.errors import LocalStackError, ServerDied, ServerNotReady
from kb_local.log_file import rotate_log, tail
from kb_local.progress_deadline import ProgressDeadline

POLL_INTERVAL_S = 0.02
CPU_STEP_S = 5.0
MOST_CPU_OF_A_START_S = 120.0
"""Limit of CPU seconds that count as progress during a start."""


async def poll_until(condition: Callable[[], Awaitable[bool]], *, timeout_s: float) -> bool:
    """Ask `condition` every few milliseconds; return whether it held within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if await condition():
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)


async def ends_within(pid: int, timeout_s: float) -> bool:
    """Wait until a process ends, at most for `timeout_s`; return whether it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return ended.is_set()


async def accepts_connections(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(10):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


class Server(ABC):
    """One process of the local stack: how it is launched, when it is ready, how it ends.

    `start` returns once the server can work; `stop` and `kill` once the process is gone.
    """

    start_timeout_s = 300.0
    """Time limit of a start in which the process does next to nothing."""

    def __init__(self, name: str, *, port: int, log: Path) -> None:
        self.name = name
        self.port = port
        self.log = log
        self._child: Child | None = None
        self._is_wanted = False
        self._was_ready = False
        self.paused = False
        """True between `pause` and `resume`."""
        self.started_at: float | None = None

    @abstractmethod
    def _launch(self) -> Child:
        """Start the process; don't wait for it."""

    @abstractmethod
    async def is_ready(self) -> bool:
        """Say whether the server can do its work now. Never raises for a server that is not there yet."""

    async def start(self) -> None:
        """Launch the process and wait until it is ready.

        Raises:
            ServerDied, ServerNotReady: with the end of its log.
        """
        self.launch()
        await self.wait_ready()

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        if self.running:
            raise RuntimeError(f"{self.name} runs already, as process {self.pid}")
        rotate_log(self.log)
        self._child = self._launch()
        self._is_wanted, self._was_ready, self.paused = True, False, False
        with contextlib.suppress(psutil.NoSuchProcess):
            self.started_at = psutil.Process(self._child.pid).create_time()

    async def wait_ready(self) -> None:
        """Wait until the launched process is ready; raises as `start` does, and ends a process that is not."""
        try:
            ready = await self.wait_with_progress(self._ready_or_ended)
        except BaseException:
            await self.kill()
            raise
        if not self.running:
            raise self._died()
        if not ready:
            await self.kill()
            raise ServerNotReady(
                f"{self.name} is not ready, and made no progress for {self.start_timeout_s:g} s."
                f" The end of its log:\n{self.log_tail()}",
                remedy=f"read {self.log}, and run `kb doctor`",
            )
        self._was_ready = True

    async def wait_with_progress(self, condition: Callable[[], Awaitable[bool]]) -> bool:
        """Ask `condition` every few milliseconds; False if it did not hold while the process still made progress."""
        deadline = ProgressDeadline(self.start_timeout_s)
        while not await condition():
            deadline.record(self._cpu_steps())
            if deadline.is_over:
                return False
            await asyncio.sleep(POLL_INTERVAL_S)
        return True

    def _cpu_steps(self) -> int:
        """Return how much CPU the process has used, in steps that one which only waits for something does not make.

        On a machine that leaves it a fiftieth of a core, it still makes one in `start_timeout_s`.
        """
        try:
            spent = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return 0
        return int(min(spent.user + spent.system, MOST_CPU_OF_A_START_S) // CPU_STEP_S)

    async def _ready_or_ended(self) -> bool:
        return not self.running or await self.is_ready()

    def _died(self) -> LocalStackError:
        status = self.returncode
        how = describe_exit(status) if status is not None else "never launched"
        return ServerDied(
            f"{self.name} ended while it started ({how}). The end of its log:\n{self.log_tail()}",
            remedy=f"read {self.log}, and run `kb doctor`",
        )

    @property
    def pid(self) -> int:
        """Return the process id, of the last run if it has ended."""
        return self._launched_child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def crashed(self) -> bool:
        """Return whether the process ended by itself."""
        return self._is_wanted and not self.running

    @property
    def starting(self) -> bool:
        """Return whether it runs but has not been ready since it was launched."""
        return self.running and not self._was_ready

    @property
    def returncode(self) -> int | None:
        """Return the exit status of the last run, negative for a signal; None while it runs or before the first run."""
        return None if self._child is None else self._child.poll()

    async def stop(self, *, timeout_s: float = 60.0) -> int:
        """End the process in its own orderly way (SIGTERM), after `timeout_s` by force; return its exit status."""
        self._is_wanted = False
        if self.running:
            self._launched_child.send_signal(signal.SIGTERM)
            self.resume()
            if not await poll_until(self._ended, timeout_s=timeout_s):
                await self.kill()
        return self.returncode or 0

    async def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self._is_wanted = False
        if self.running:
            self._launched_child.send_signal(signal.SIGKILL)
            await self.wait()

    async def wait(self) -> int:
        """Wait until the process has ended, however long that takes; return its exit status."""
        await poll_until(self._ended, timeout_s=math.inf)
        return self.returncode or 0

    async def wait_at_most(self, timeout_s: float) -> None:
        """Wait until the process has ended, at most for `timeout_s`. It takes no CPU while the process runs."""
        if await ends_within(self.pid, timeout_s):
            # Its parent, if that is not this process, has yet to say so.
            await poll_until(self._ended, timeout_s=timeout_s)

    async def pause(self) -> None:
        """Send SIGSTOP: connections stay open, but nothing answers after this returns, as on a frozen machine."""
        self.paused = True
        self._launched_child.send_signal(signal.SIGSTOP)
        await poll_until(self._is_stopped, timeout_s=math.inf)

    def resume(self) -> None:
        self.paused = False
        self._launched_child.send_signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the last lines that the process wrote."""
        return tail(self.log)

    async def _is_stopped(self) -> bool:
        # The signal is on its way to the threads for a moment after it was sent.
        return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED

    async def _ended(self) -> bool:
        return not self.running

    @property
    def _launched_child(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self.name} was never launched")
        return self._child
