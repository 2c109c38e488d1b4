"""Limits processes to a share of a CPU: by a control group if possible, otherwise by SIGSTOP and SIGCONT."""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Final
from uuid import uuid4

import psutil

from kb_local.server import Server

PERIOD_US: Final = 100_000
_POLL_INTERVAL_S: Final = 0.02
_LONGEST_CREDIT_S: Final = 0.1
"""Limit of the CPU time that an idle process can save up."""


class CpuLimiter(ABC):
    """Limits one process at a time; after a restart, the new one."""

    @abstractmethod
    def limit(self, server: Server) -> None:
        """Limit the running process of `server`; called repeatedly."""

    @abstractmethod
    def release(self) -> None:
        """Remove the limit."""


class CgroupLimiter(CpuLimiter):
    """A folder of a mounted cgroup hierarchy with a quota of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None

    def limit(self, server: Server) -> None:
        if server.pid != self._held:
            with contextlib.suppress(ProcessLookupError):
                (self._folder / "cgroup.procs").write_text(str(server.pid))
                self._held = server.pid

    def release(self) -> None:
        for process in (self._folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self._folder.parent / "cgroup.procs").write_text(process)
        # A process that has ended leaves its group a moment later than the list of it.
        with contextlib.suppress(OSError):
            self._folder.rmdir()


class StopContinueLimiter(CpuLimiter):
    """Stops a process that has used up its share until it is entitled to more."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._process: psutil.Process | None = None
        self._credit_s = 0.0
        self._used_s = 0.0
        self._measured_at = 0.0
        self._stopped_by_us = False

    def limit(self, server: Server) -> None:
        # A process that a test has paused stays paused.
        if server.paused:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process = self._process
            if process is None or process.pid != server.pid:
                self._start_measuring(psutil.Process(server.pid))
            else:
                self._charge_and_suspend(process)

    def _start_measuring(self, process: psutil.Process) -> None:
        self._process, self._stopped_by_us = process, False
        self._used_s, self._measured_at, self._credit_s = _cpu_seconds(process), monotonic(), 0.0

    def _charge_and_suspend(self, process: psutil.Process) -> None:
        now, used_s = monotonic(), _cpu_seconds(process)
        earned_s = (now - self._measured_at) * self._share
        self._credit_s = min(_LONGEST_CREDIT_S, self._credit_s + earned_s - (used_s - self._used_s))
        self._measured_at, self._used_s = now, used_s
        if self._credit_s < 0:
            process.suspend()
            self._stopped_by_us = True
        elif self._stopped_by_us:
            process.resume()
            self._stopped_by_us = False

    def release(self) -> None:
        if self._process is not None and self._stopped_by_us:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process.resume()


def create_limiter(
    share: float, *, hierarchies: Iterable[Path] = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))
) -> CpuLimiter:
    """Return the limiter that works on this machine, for `share` of a CPU."""
    for hierarchy in hierarchies:
        folder = hierarchy / f"kb-tests-{os.getpid()}-{uuid4().hex[:8]}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if _set_quota(folder, int(share * PERIOD_US)):
            return CgroupLimiter(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
    return StopContinueLimiter(share)


@contextlib.asynccontextmanager
async def limit_cpu(share: float, servers: Callable[[], Iterable[Server]]) -> AsyncIterator[None]:
    """Limit each of `servers` to `share` of a CPU, also those that are started or restarted meanwhile."""
    limiters: dict[str, CpuLimiter] = {}

    async def keep() -> None:
        while True:
            for server in list(servers()):
                if server.running:
                    if server.name not in limiters:
                        limiters[server.name] = create_limiter(share)
                    limiters[server.name].limit(server)
            await asyncio.sleep(_POLL_INTERVAL_S)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        for each in limiters.values():
            each.release()


def _set_quota(folder: Path, quota_us: int) -> bool:
    try:
        if (folder / "cgroup.procs").exists() and (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        elif (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            return False
    except OSError:
        return False
    return True


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
