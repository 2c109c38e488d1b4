"""What the searches of somebody have been charged, also those that fail or are given up after that."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kb_shared.embedding.embedder import Embedded
from kb_shared.observability.metrics import QUERY_VECTOR_CACHE_HITS


@dataclass(slots=True)
class SpuTally:
    around: "SpuTally | None"
    spus: int = 0
    query_vectors: int = 0
    query_vectors_not_cached: int = 0
    """Number of query vectors that were not cached; a search that restarts keeps the count of its first time."""


_tally: ContextVar[SpuTally | None] = ContextVar("spu_tally", default=None)


@contextmanager
def tallied() -> Iterator[SpuTally]:
    """Count what is charged inside, in this task and those that it starts; tallies around it count it, too."""
    tally = SpuTally(_tally.get())
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def note_embedded(query: Embedded) -> None:
    """Add the embedding of one query to all tallies."""
    is_cached = query.found > 0
    if is_cached:
        QUERY_VECTOR_CACHE_HITS.inc()
    tally = _tally.get()
    while tally is not None:
        tally.spus += query.generated
        tally.query_vectors += 1
        tally.query_vectors_not_cached += not is_cached
        tally = tally.around
