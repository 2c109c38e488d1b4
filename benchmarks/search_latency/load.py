"""Ways to ask, and how long each answer took, in milliseconds."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from benchmarks.search_latency.asking import Question


class Asker(Protocol):
    async def ask(self, question: Question) -> None: ...


@dataclass(frozen=True, slots=True)
class Latency:
    p50: float
    p95: float
    p99: float

    @classmethod
    def from_milliseconds(cls, milliseconds: Sequence[float]) -> "Latency":
        p50, p95, p99 = (round(float(each), 2) for each in np.percentile(milliseconds, [50, 95, 99]))
        return cls(p50, p95, p99)


async def in_turn(askers: Sequence[Asker], questions: Sequence[Question]) -> list[Latency]:
    """Each question to each asker, one after the other: what slows the machine down slows all of them down."""
    took: list[list[float]] = [[] for _ in askers]
    for question in questions:
        for asker, times in zip(askers, took, strict=True):
            times.append(await _timed(asker, question))
    return [Latency.from_milliseconds(times) for times in took]


async def at_once(asker: Asker, questions: Sequence[Question], *, concurrency: int) -> float:
    """Questions a second when so many are always under way."""
    waiting = iter(questions)

    async def keep_asking() -> None:
        for question in waiting:
            await asker.ask(question)

    began = perf_counter()
    await asyncio.gather(*(keep_asking() for _ in range(concurrency)))
    return len(questions) / (perf_counter() - began)


async def arriving(asker: Asker, questions: Sequence[Question], *, per_second: float) -> Latency:
    """Questions come when they come, as from many users, whether those before are answered or not."""
    dice = random.Random(0)
    due = perf_counter()
    under_way: list[asyncio.Task[float]] = []
    for question in questions:
        due += dice.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - perf_counter()))
        under_way.append(asyncio.create_task(_timed(asker, question, since=due)))
    return Latency.from_milliseconds(await asyncio.gather(*under_way))


async def _timed(asker: Asker, question: Question, *, since: float | None = None) -> float:
    began = perf_counter() if since is None else since
    await asker.ask(question)
    return (perf_counter() - began) * 1000
