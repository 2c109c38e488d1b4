"""Samples of all processes of a stack: memory, descriptors, sockets, threads, tasks, and series of metrics."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

import aiohttp
import psutil

from benchmarks.soak.flatness import Sample
from kb_local.server import Server
from kb_local.service import Service
from kb_local.stack import Stack

EVERY_S: Final = 5.0
_SCRAPE_TIMEOUT_S: Final = 3.0
_TASKS: Final = "kb_event_loop_tasks"
_LAG: Final = "kb_consumer_lag_records"
_QUEUE: Final = "kb_indexing_queue_depth"

Life = tuple[str, int]
"""Name and process id of a server: after a restart it is another process with figures of its own."""


@dataclass(slots=True)
class ProcessSampler:
    """Takes samples until it is cancelled."""

    stack: Stack
    began: float = field(default_factory=monotonic)
    figures: dict[Life, dict[str, list[Sample]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    lag_records: list[Sample] = field(default_factory=list)
    """Messages that the indexers have not committed yet."""
    queued_jobs: list[Sample] = field(default_factory=list)

    @property
    def now_s(self) -> float:
        return monotonic() - self.began

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=_SCRAPE_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                await self._take_samples(http)
                await asyncio.sleep(EVERY_S)

    def last_life(self, name: str) -> dict[str, list[Sample]]:
        """Return the figures of the process with this name that was seen last."""
        lives = [figures for (of, _), figures in self.figures.items() if of == name]
        return lives[-1] if lives else {}

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.figures))

    async def _take_samples(self, http: aiohttp.ClientSession) -> None:
        at_s, lags, depths = self.now_s, [], []
        for server in self.stack.servers:
            if not server.running or server.paused:
                continue
            life = (server.name, server.pid)
            for figure, value in process_figures(server):
                self.figures[life][figure].append((at_s, value))
            exposition = await _scrape(http, server) if isinstance(server, Service) else None
            if exposition is None:
                continue
            for figure, value in _metric_figures(exposition):
                self.figures[life][figure].append((at_s, value))
            lags += values_of(exposition, _LAG)
            depths += values_of(exposition, _QUEUE)
        if lags:
            self.lag_records.append((at_s, sum(lags)))
        if depths:
            self.queued_jobs.append((at_s, max(depths)))


def values_of(exposition: str, metric: str) -> list[float]:
    """Return the values of all series of a metric."""
    lines = (line for line in exposition.splitlines() if line.startswith((f"{metric} ", f"{metric}{{")))
    return [float(line.rpartition(" ")[2]) for line in lines]


def count_series(exposition: str) -> int:
    return sum(1 for line in exposition.splitlines() if line and not line.startswith("#"))


def process_figures(server: Server) -> Iterator[tuple[str, float]]:
    try:
        process = psutil.Process(server.pid)
        with process.oneshot():
            yield "memory_mb", process.memory_info().rss / 1_000_000
            yield "descriptors", process.num_fds()
            yield "threads", process.num_threads()
        yield "sockets", _count_sockets(server.pid)
    except (psutil.Error, FileNotFoundError, ProcessLookupError):
        return


def _count_sockets(pid: int) -> int:
    """Count the sockets of a process. Unlike `psutil`, does not read the table of all connections of the machine."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # It may have been closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            count += descriptor.readlink().name.startswith("socket:")
    return count


def _metric_figures(exposition: str) -> Iterator[tuple[str, float]]:
    yield "series", count_series(exposition)
    if tasks := values_of(exposition, _TASKS):
        yield "tasks", tasks[0]


async def _scrape(http: aiohttp.ClientSession, service: Service) -> str | None:
    try:
        async with http.get(f"{service.url}/metrics") as response:
            return await response.text()
    except (aiohttp.ClientError, TimeoutError):
        return None


def to_json(figures: Mapping[Life, Mapping[str, list[Sample]]]) -> list[dict[str, object]]:
    """Return the samples of each process, rounded."""
    return [
        {
            "process": name,
            "pid": pid,
            "figures": {
                figure: [(round(at_s, 1), round(value, 1)) for at_s, value in samples]
                for figure, samples in of_process.items()
            },
        }
        for (name, pid), of_process in figures.items()
    ]
