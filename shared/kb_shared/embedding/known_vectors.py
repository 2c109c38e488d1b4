"""What was paid for before: in memory for queries asked lately, else in the cache of all replicas.

Documents at work on at the same time are looked up together.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.embedding.recent_vectors import RecentVectors
from kb_shared.mongo import embedding_cache
from kb_shared.mongo.database import Database
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.vector import Vector, from_binary

_QUESTIONS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """To the cache."""

    space: VectorSpace
    chunk_hashes: Collection[str]
    keep_for: timedelta | None


class KnownVectors:
    """One for a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentVectors()
        self._looked_up = BatchLoader(self._look_up, at_most=_QUESTIONS_AT_ONCE)

    async def find(
        self, space: VectorSpace, chunk_hashes: Collection[str], *, keep_for: timedelta | None
    ) -> dict[str, Vector]:
        """Return the vectors that are known, by chunk hash; `keep_for` as in `embedding_cache.find`."""
        recent = self._recent.find(space, chunk_hashes)
        if len(recent) == len(chunk_hashes):
            return recent
        return await self._looked_up(_Question(space, chunk_hashes, keep_for)) or {}

    def remember(self, space: VectorSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep some in memory for a while, where they are asked for again soon."""
        self._recent.keep(space, vectors)

    async def _look_up(self, questions: Sequence[_Question]) -> Mapping[_Question, dict[str, Vector]]:
        together: dict[tuple[VectorSpace, timedelta | None], set[str]] = {}
        for question in questions:
            together.setdefault((question.space, question.keep_for), set()).update(question.chunk_hashes)
        found = {
            (space, keep_for): await embedding_cache.find(self._database, space, hashes, keep_for=keep_for)
            for (space, keep_for), hashes in together.items()
        }
        return {question: _those_of(question, found[question.space, question.keep_for]) for question in questions}


def _those_of(question: _Question, found: Mapping[str, bytes]) -> dict[str, Vector]:
    return {chunk_hash: from_binary(found[chunk_hash]) for chunk_hash in question.chunk_hashes if chunk_hash in found}
