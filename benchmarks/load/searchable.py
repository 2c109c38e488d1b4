"""Time to searchable, as a caller sees it: from an event to the first search that finds its text."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import aiohttp

from benchmarks.load.population import LoadDocument, PlannedEvent
from benchmarks.load.statistics import LatencyHistogram
from benchmarks.load.target import LoadTarget

_POLL_S: Final = 0.05
"""Time between two searches for one text, and so the error of the figure."""


@dataclass(slots=True)
class SearchableSampler:
    """Follows some of the new texts, because following costs searches.

    Attributes:
        per_second: limit of texts that are followed.
        patience_s: time after which a text that is not found is counted as missing.
    """

    target: LoadTarget
    per_second: float
    patience_s: float
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    not_found: int = 0
    superseded: int = 0
    """Texts that were changed or deleted before they were found."""
    errors: Counter[str] = field(default_factory=Counter)
    _next_at: float = 0.0

    def wants(self, planned: PlannedEvent) -> bool:
        now = perf_counter()
        if planned.marker is None or self.per_second <= 0 or now < self._next_at:
            return False
        self._next_at = now + 1 / self.per_second
        return True

    async def follow(self, planned: PlannedEvent, due: float, *, measured: bool) -> None:
        """Search for the marker of a text until it is found."""
        assert planned.marker is not None
        while planned.document.marker == planned.marker and not planned.document.is_deleted:
            if await self._is_found(planned.document, planned.marker):
                if measured:
                    self.latencies.record(perf_counter() - due)
                return
            if perf_counter() - due > self.patience_s:
                self.not_found += 1
                return
            await asyncio.sleep(_POLL_S)
        self.superseded += 1

    async def _is_found(self, document: LoadDocument, marker: str) -> bool:
        body = {"query": marker, "mode": "text", "document_ids": [document.document_id], "top_k": 1}
        try:
            status, answer = await self.target.search(document.home, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.errors[type(error).__name__] += 1
            return False
        if status != 200:
            self.errors[f"{status} {answer.get('type', '')}".strip()] += 1
            return False
        return any(marker in result["content"] for result in answer["results"])

    def figures(self) -> dict[str, Any]:
        return {
            **self.latencies.figures(),
            "not_found": self.not_found,
            "superseded": self.superseded,
            "errors_while_looking": dict(self.errors.most_common()),
        }
