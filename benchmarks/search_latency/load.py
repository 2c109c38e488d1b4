"""Ways to ask, and how long each answer took, in milliseconds."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from benchmarks.search_latency.searchers import SearchQuestion


class Searcher(Protocol):
    async def ask(self, question: SearchQuestion) -> None: ...


@dataclass(frozen=True, slots=True)
class Latency:
    p50: float
    p95: float
    p99: float

    @classmethod
    def from_milliseconds(cls, milliseconds: Sequence[float]) -> "Latency":
        p50, p95, p99 = (round(float(each), 2) for each in np.percentile(milliseconds, [50, 95, 99]))
        return cls(p50, p95, p99)


async def search_in_turn(searchers: Sequence[Searcher], questions: Sequence[SearchQuestion]) -> list[Latency]:
    """Each question to each searcher, one after the other: what slows the machine down slows all of them down."""
    took: list[list[float]] = [[] for _ in searchers]
    for question in questions:
        for searcher, times in zip(searchers, took, strict=True):
            times.append(await _timed(searcher, question))
    return [Latency.from_milliseconds(times) for times in took]


async def search_concurrently(searcher: Searcher, questions: Sequence[SearchQuestion], *, concurrency: int) -> float:
    """Questions a second when so many are always under way."""
    waiting = iter(questions)

    async def keep_asking() -> None:
        for question in waiting:
            await searcher.ask(question)

    began = perf_counter()
    await asyncio.gather(*(keep_asking() for _ in range(concurrency)))
    return len(questions) / (perf_counter() - began)


async def search_at_rate(searcher: Searcher, questions: Sequence[SearchQuestion], *, per_second: float) -> Latency:
    """Questions come when they come, as from many users, whether those before are answered or not."""
    dice = random.Random(0)
    due = perf_counter()
    under_way: list[asyncio.Task[float]] = []
    for question in questions:
        due += dice.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - perf_counter()))
        under_way.append(asyncio.create_task(_timed(searcher, question, since=due)))
    return Latency.from_milliseconds(await asyncio.gather(*under_way))


async def _timed(searcher: Searcher, question: SearchQuestion, *, since: float | None = None) -> float:
    began = perf_counter() if since is None else since
    await searcher.ask(question)
    return (perf_counter() - began) * 1000
