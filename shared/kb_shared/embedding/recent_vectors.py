"""Vectors of queries that this process has been asked for lately: who asks again waits for nobody.

In front of the cache in MongoDB, which all processes share and which decides what is paid for.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Final

from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.vector import Vector

MOST_KEPT: Final = 2_000
"""12 MB of vectors of 1536 dimensions."""
LIFETIME_S: Final = 600.0
"""By how much a vector may outlive its row."""


class RecentVectors:
    """Keeps the vectors that were used last."""

    def __init__(self, *, at_most: int = MOST_KEPT, lifetime_s: float = LIFETIME_S) -> None:
        self._at_most = at_most
        self._lifetime_s = lifetime_s
        self._kept: OrderedDict[tuple[VectorSpace, str], tuple[Vector, float]] = OrderedDict()

    def find(self, space: VectorSpace, chunk_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the known vectors, by chunk hash."""
        now = monotonic()
        found: dict[str, Vector] = {}
        for chunk_hash in chunk_hashes:
            key = (space, chunk_hash)
            vector, until = self._kept.get(key, (None, 0.0))
            if vector is not None and now < until:
                self._kept.move_to_end(key)
                found[chunk_hash] = vector
        return found

    def keep(self, space: VectorSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors that are stored; one that is known already does not live longer for it."""
        now = monotonic()
        for chunk_hash, vector in vectors.items():
            key = (space, chunk_hash)
            _, until = self._kept.get(key, (None, 0.0))
            if now >= until:
                self._kept[key] = (vector, now + self._lifetime_s)
            self._kept.move_to_end(key)
        while len(self._kept) > self._at_most:
            self._kept.popitem(last=False)
