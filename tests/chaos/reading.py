"""A reader of one document, who knows every text it ever had and believes nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kb_local.model_server.hash_model import vector_of
from tests.chaos.experience import Experience
from tests.chaos.revisions import Revisions
from tests.e2e.system import DIMENSIONS, System

ALL = 20
"""The most results there may be; more than any of these documents has chunks."""


@dataclass(slots=True)
class Reading:
    """What readers of one document saw, and what of it is wrong."""

    system: System
    kb_id: str
    document_id: str
    revisions: Revisions
    experience: Experience = field(default_factory=Experience)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    _text_of_citation: dict[str, str] = field(default_factory=dict)

    async def read_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.read()

    async def read(self) -> set[str]:
        """Search for a paragraph, check what is shown and return the texts."""
        query = self.revisions.recent_paragraph()
        hits = await self.system.search(self.kb_id, query, top_k=ALL, document_ids=[self.document_id])
        return self._judge(query, hits)

    async def try_to_read(self) -> set[str] | None:
        """As `read`; None if nobody can be asked now, which search has to say and not to answer with nothing."""
        query = self.revisions.recent_paragraph()
        asked = {"query": query, "top_k": ALL, "document_ids": [self.document_id]}
        answer = await self.system.http.post(f"/knowledge-bases/{self.kb_id}/search", json=asked)
        self.experience.note("search", answer.status_code, success=answer.is_success)
        if answer.status_code == 200:
            return self._judge(query, answer.json()["results"])
        if answer.status_code != 503:
            self.wrong.append(f"a search was answered with {answer.status_code}: {answer.text[:500]}")
        return None

    def _judge(self, query: str, hits: Sequence[dict[str, Any]]) -> set[str]:
        self.reads += 1
        shown = {hit["content"] for hit in hits}
        if not shown:
            self.wrong.append("empty")
        if not any(shown <= set(text) for text in self.revisions.published):
            self.wrong.append(f"mixed: {sorted(text[:12] for text in shown)}")
        self.wrong += [what for hit in hits for what in self._wrong_with(hit, query)]
        return shown

    def _wrong_with(self, hit: dict[str, Any], query: str) -> list[str]:
        wrong = []
        cosine = float(vector_of(hit["content"], dimensions=DIMENSIONS) @ vector_of(query, dimensions=DIMENSIONS))
        # A search that did without the vector of its query has no scores.
        if hit["relevance"] is not None and abs(hit["relevance"] - (1 + cosine) / 2) > 1e-4:
            wrong.append(f"the text {hit['content'][:12]!r} under the score of another")
        if self._text_of_citation.setdefault(hit["citation"], hit["content"]) != hit["content"]:
            wrong.append(f"{hit['citation']} named another text before")
        return wrong
