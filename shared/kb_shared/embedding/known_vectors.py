"""Finds vectors that were paid for before: in memory for recent queries, else in the cache of all replicas.

Concurrent look-ups share one command.
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

_MOST_LOOKUPS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """To the cache."""

    space: VectorSpace
    chunk_hashes: Collection[str]
    keep_for: timedelta | None


class KnownVectors:
    """One for a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentVectors()
        self._looked_up = BatchLoader(self._look_up, at_most=_MOST_LOOKUPS_AT_ONCE)

    async def find(
        self, space: VectorSpace, chunk_hashes: Collection[str], *, keep_for: timedelta | None
    ) -> dict[str, Vector]:
        """Return the vectors that are known, by chunk hash; `keep_for` as in `embedding_cache.find`."""
        recent = self._recent.find(space, chunk_hashes)
        if len(recent) == len(chunk_hashes):
            return recent
        return await self._looked_up(_Lookup(space, chunk_hashes, keep_for)) or {}

    def remember(self, space: VectorSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep some in memory for a while, where they are asked for again soon."""
        self._recent.keep(space, vectors)

    async def _look_up(self, lookups: Sequence[_Lookup]) -> Mapping[_Lookup, dict[str, Vector]]:
        together: dict[tuple[VectorSpace, timedelta | None], set[str]] = {}
        for lookup in lookups:
            together.setdefault((lookup.space, lookup.keep_for), set()).update(lookup.chunk_hashes)
        found = {
            (space, keep_for): await embedding_cache.find(self._database, space, hashes, keep_for=keep_for)
            for (space, keep_for), hashes in together.items()
        }
        return {lookup: _those_of(lookup, found[lookup.space, lookup.keep_for]) for lookup in lookups}


def _those_of(lookup: _Lookup, found: Mapping[str, bytes]) -> dict[str, Vector]:
    return {chunk_hash: from_binary(found[chunk_hash]) for chunk_hash in lookup.chunk_hashes if chunk_hash in found}
