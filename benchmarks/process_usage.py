"""CPU and memory of the processes of a stack, and of the benchmark itself."""

import os
from collections.abc import Mapping

import psutil

from kb_local.stack import Stack


def cpu_s_of(stack: Stack | None) -> dict[str, float]:
    """Return the seconds of CPU that each process has used so far. Without a stack: only those of the benchmark."""
    servers = {server.name: server.pid for server in stack.servers if server.running} if stack is not None else {}
    return {name: _cpu_s(pid) for name, pid in {**servers, "benchmark": os.getpid()}.items()}


def busy_cpu_s() -> float:
    """Return the seconds of CPU that all processes of the machine have used since it was started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def memory_mb_of(stack: Stack) -> dict[str, float]:
    """Return the resident memory of each process."""
    servers = {server.name: server.pid for server in stack.servers if server.running}
    return {name: round(psutil.Process(pid).memory_info().rss / 1_000_000, 1) for name, pid in servers.items()}


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: round(total - before.get(name, 0.0), 2) for name, total in after.items()}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
