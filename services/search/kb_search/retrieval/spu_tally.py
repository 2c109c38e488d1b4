"""Counts the SPUs that searches are charged, also those that fail or are cancelled afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kb_shared.embedding.embedder import Embedded
from kb_shared.observability.metrics import QUERY_VECTOR_CACHE_HITS


@dataclass(slots=True)
class SpuTally:
    """Count of what is charged in one `with` block."""

    parent: "SpuTally | None"
    """Tally of the enclosing block."""
    spus: int = 0
    query_vectors: int = 0
    query_vectors_not_cached: int = 0
    """Number of query vectors that were not cached. A restart of a search does not reset it."""


_tally: ContextVar[SpuTally | None] = ContextVar("spu_tally", default=None)


@contextmanager
def tally_spus() -> Iterator[SpuTally]:
    """Count what is charged inside the block, in this task and those that it starts. Enclosing blocks count it, too."""
    tally = SpuTally(_tally.get())
    token = _tally.set(tally)
    try:
        yield tally
    finally:
        _tally.reset(token)


def count_query_embedding(query: Embedded) -> None:
    """Add the embedding of one query to the current tally and those that enclose it."""
    is_cached = query.found > 0
    if is_cached:
        QUERY_VECTOR_CACHE_HITS.inc()
    tally = _tally.get()
    while tally is not None:
        tally.spus += query.generated
        tally.query_vectors += 1
        tally.query_vectors_not_cached += not is_cached
        tally = tally.parent
