"""Searches for one document all the time, and checks each result against all texts that the document had."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kb_local.model_server.hash_model import vector_of
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.revisions import Revisions
from tests.e2e.system import DIMENSIONS, SystemUnderTest

ALL = 20
"""Limit of results: more than any of these documents has chunks."""


@dataclass(slots=True)
class DocumentReader:
    """Readers of one document, and the violations that they saw."""

    system: SystemUnderTest
    kb_id: str
    document_id: str
    revisions: Revisions
    availability: AvailabilityRecorder = field(default_factory=AvailabilityRecorder)
    reads: int = 0
    violations: list[str] = field(default_factory=list)
    _text_of_citation: dict[str, str] = field(default_factory=dict)

    async def read_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.read()

    async def read(self) -> set[str]:
        """Search for a paragraph, check what is shown and return the texts."""
        query = self.revisions.recent_paragraph()
        hits = await self.system.search(self.kb_id, query, top_k=ALL, document_ids=[self.document_id])
        return self._check_results(query, hits)

    async def try_to_read(self) -> set[str] | None:
        """Read as `read` does; return None if search answers 503 (an empty result would be a violation)."""
        query = self.revisions.recent_paragraph()
        asked = {"query": query, "top_k": ALL, "document_ids": [self.document_id]}
        answer = await self.system.http.post(f"/knowledge-bases/{self.kb_id}/search", json=asked)
        self.availability.record("search", answer.status_code, success=answer.is_success)
        if answer.status_code == 200:
            return self._check_results(query, answer.json()["results"])
        if answer.status_code != 503:
            self.violations.append(f"a search was answered with {answer.status_code}: {answer.text[:500]}")
        return None

    def _check_results(self, query: str, hits: Sequence[dict[str, Any]]) -> set[str]:
        self.reads += 1
        shown = {hit["content"] for hit in hits}
        if not shown:
            self.violations.append("empty")
        if not any(shown <= set(text) for text in self.revisions.published):
            self.violations.append(f"mixed: {sorted(text[:12] for text in shown)}")
        self.violations += [what for hit in hits for what in self._violations_in(hit, query)]
        return shown

    def _violations_in(self, hit: dict[str, Any], query: str) -> list[str]:
        wrong = []
        cosine = float(vector_of(hit["content"], dimensions=DIMENSIONS) @ vector_of(query, dimensions=DIMENSIONS))
        # A search that did without the vector of its query has no scores.
        if hit["relevance"] is not None and abs(hit["relevance"] - (1 + cosine) / 2) > 1e-4:
            wrong.append(f"the text {hit['content'][:12]!r} under the score of another")
        if self._text_of_citation.setdefault(hit["citation"], hit["content"]) != hit["content"]:
            wrong.append(f"{hit['citation']} named another text before")
        return wrong
