"""Measures the time of new documents, one at a time, from their event to the first search that finds them."""

import argparse
import asyncio
import random
from collections.abc import Awaitable, Callable
from statistics import quantiles
from time import monotonic
from typing import Final

from benchmarks.indexing import corpus
from benchmarks.indexing.system import System

_FIRST: Final = 1_000_000
"""Number of the first newcomer's text, which no other document has."""


class SearchableTimer:
    """Documents of one KB."""

    def __init__(self, system: System, kb_id: str, *, tag_id: str, options: argparse.Namespace) -> None:
        self._system = system
        self._kb_id = kb_id
        self._tag_id = tag_id
        self._words = options.words
        self._known = 0
        self._dice = random.Random(0)

    async def measure_s(
        self, documents: int, *, wanted: Callable[[], Awaitable[bool]] | None = None, pause_s: float = 0.5
    ) -> list[float]:
        """Publish so many documents, each some time after the one before was found.

        Args:
            wanted: asked before each; it ends when the answer is no.
            pause_s: on the average, and never the same, so that no poll of the system keeps in step.
        """
        times = []
        for _ in range(documents):
            await asyncio.sleep(pause_s * self._dice.uniform(0.5, 1.5))
            if wanted is not None and not await wanted():
                break
            times.append(await self._measure_one_s())
        return times

    async def _measure_one_s(self) -> float:
        number = _FIRST + self._known
        self._known += 1
        text = next(corpus.texts(documents=1, words=self._words, first=number))
        document_id = f"{self._tag_id}-{number}"
        began = monotonic()
        await self._system.events.publish(self._system.event(document_id, text, tag_id=self._tag_id))
        await self._system.until_found(self._kb_id, [document_id])
        return monotonic() - began


def percentiles_ms(times_s: list[float]) -> dict[str, float]:
    """`samples`, `p50_ms`, `p95_ms` and `max_ms` of two times at least."""
    cuts = quantiles(times_s, n=100, method="inclusive")
    return {
        "samples": len(times_s),
        "p50_ms": round(1000 * cuts[49], 1),
        "p95_ms": round(1000 * cuts[94], 1),
        "max_ms": round(1000 * max(times_s), 1),
    }
