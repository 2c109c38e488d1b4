"""Keeps the vectors of recent queries in memory: a query that is repeated needs no other service.

In front of the cache in MongoDB, which all processes share and which decides what is paid for.
"""

from collections.abc import Collection, Mapping
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.vector import Vector

MOST_KEPT: Final = 2_000
"""Number of cached vectors: 12 MB with 1536 dimensions."""
LIFETIME_S: Final = 600.0
"""Time by which a vector may outlive its row."""


class RecentVectors:
    """Keeps the vectors that were used last."""

    def __init__(self, *, at_most: int = MOST_KEPT, lifetime_s: float = LIFETIME_S) -> None:
        self._kept: BoundedCache[tuple[VectorSpace, str], Vector] = BoundedCache(at_most, lifetime_s=lifetime_s)

    def find(self, space: VectorSpace, chunk_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the known vectors, by chunk hash."""
        found: dict[str, Vector] = {}
        for chunk_hash in chunk_hashes:
            vector = self._kept.find((space, chunk_hash))
            if vector is not None:
                found[chunk_hash] = vector
        return found

    def keep(self, space: VectorSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors that are stored; one that is known already does not live longer for it."""
        for chunk_hash, vector in vectors.items():
            key = (space, chunk_hash)
            if self._kept.find(key) is None:
                self._kept.put(key, vector)
