"""Estimates how far a KB is, and how long the rest takes. Pure.

The unit is the chunk, because documents differ in size by a factor of a thousand. How many chunks a document gets is
known once it is cut; before, it follows from the length of its text. Only vectors that a provider makes take time,
so the pace is that of charges, which are written with each answer, also within a document. Times are compared with each
other only, never with a clock here: those of the database and of other processes may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

RUN_ENDS_AFTER_S: Final = 60.0
"""Time without anything done, after which what follows is another run."""
_SHORTEST_WINDOW_S: Final = 60.0
_SHARE_OF_RUN: Final = 0.5
"""Part of a run, up to now, that its pace is measured in: the longer it lasts, the steadier its pace."""
_FEWEST_MOMENTS: Final = 3
_SHORTEST_SPAN_S: Final = 2.0
_TELLING_SPAN_S: Final = 10.0
"""Length of a run from which on its pace counts more than that of the run before: the first answers are slow, because
the first documents of a push are the small ones, which do not fill requests."""
_CONVINCING_DOCUMENTS: Final = 50
"""Number of documents in a row that the cache had whole, after which it is expected to have the others, too."""

DoneAt: TypeAlias = tuple[float, float]
"""A time in seconds, and how much was done then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDocument:
    """Document with an open job."""

    text_length: int | None = None
    """Number of characters of its text; None if it is not known."""
    chunk_count: int | None = None
    """Number of chunks of its text; None until it is cut, and of a small document until it is done."""
    embedded_count: int = 0
    chunks_before: int = 0
    """Number of chunks that are indexed of it now."""
    keeps_vectors: bool = False
    """True if its text is indexed already, with the same settings: no provider is asked for it."""
    leaves: bool = False
    """True if it has to be removed."""


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """Work that is left, in chunks."""

    cut: float = 0
    """Chunks without a vector of documents that are cut. The cache was asked for them."""
    uncut: float = 0
    """Chunks of documents that are not cut, as far as they may need vectors. The cache may have some."""
    kept: float = 0
    """Chunks of documents that need no vectors, one at least for each."""
    kept_documents: float = 0
    expected: float = 0
    """Chunks of all these documents when they are done."""
    before: float = 0
    """Chunks that are indexed of them now."""

    @property
    def chunks(self) -> float:
        return self.cut + self.uncut + self.kept

    def __add__(self, other: "WorkLeft") -> "WorkLeft":
        return WorkLeft(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __mul__(self, factor: float) -> "WorkLeft":
        return WorkLeft(*(getattr(self, name) * factor for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class IndexedLately:
    """Document that was indexed lately."""

    at_s: float
    chunk_count: int
    embeddings: int
    """Number of its vectors that a provider made."""
    cached: int
    text_length: int | None = None


def measure_size(done: Sequence[IndexedLately], open_documents: Sequence[OpenDocument], *, usual: float) -> float:
    """Return the characters of a chunk, by the documents whose length and chunks are known; `usual` without any."""
    known = [
        *((each.text_length, each.chunk_count) for each in done),
        *((each.text_length, each.chunk_count) for each in open_documents),
    ]
    pairs = [(length, chunks) for length, chunks in known if length and chunks]
    return sum(length for length, _ in pairs) / sum(chunks for _, chunks in pairs) if pairs else usual


def weigh(documents: Sequence[OpenDocument], *, characters: float, mean_chunks: float) -> WorkLeft:
    """Return the work that documents are.

    Args:
        documents: with open jobs.
        characters: of a chunk.
        mean_chunks: of a document; counts for one whose length is not known.
    """
    work = WorkLeft()
    for each in documents:
        before = each.chunks_before
        if each.leaves:
            work += WorkLeft(kept=1, kept_documents=1, expected=1, before=before)
        elif each.keeps_vectors:
            chunks = max(1, before)
            work += WorkLeft(kept=chunks, kept_documents=1, expected=chunks, before=before)
        elif each.chunk_count is not None:
            # Its swap is still to come when all vectors are there.
            left = max(1, each.chunk_count - each.embedded_count)
            work += WorkLeft(cut=left, expected=max(left, each.chunk_count), before=before)
        else:
            expected = max(1.0, mean_chunks if each.text_length is None else each.text_length / characters)
            work += WorkLeft(uncut=expected, expected=expected, before=before)
    return work


def progress(work: WorkLeft, *, live: int) -> float:
    """Return the share of the chunks, of which `live` are indexed now, that need no more work."""
    if not work.chunks:
        return 1.0
    total = max(0.0, live - work.before) + work.expected
    return max(0.0, total - work.chunks) / total


def measure_pace(moments: Sequence[DoneAt]) -> float | None:
    """Return how much was done in a second in the last run that is long enough to tell; None if none is.

    Args:
        moments: in the order of time.
    """
    runs: list[list[DoneAt]] = []
    for moment in reversed(moments):
        if not runs or runs[-1][-1][0] - moment[0] > RUN_ENDS_AFTER_S:
            runs.append([])
        runs[-1].append(moment)
    paces = [_pace_of_run(run, span_s=span_s) for span_s in (_TELLING_SPAN_S, _SHORTEST_SPAN_S) for run in runs]
    return next((pace for pace in paces if pace is not None), None)


def _pace_of_run(run: Sequence[DoneAt], *, span_s: float) -> float | None:
    """Return the pace in the newest part of a run, whose moments are newest first; None if it is shorter."""
    newest, oldest = run[0][0], run[-1][0]
    window = max(_SHORTEST_WINDOW_S, (newest - oldest) * _SHARE_OF_RUN)
    within = [moment for moment in run if newest - moment[0] <= window]
    # What was done at the first moment took time before it.
    span, amount = newest - within[-1][0], sum(done for _, done in within[:-1])
    return amount / span if len(within) >= _FEWEST_MOMENTS and span >= span_s else None


def estimate_seconds(work: WorkLeft, *, done: Sequence[IndexedLately], vectors_per_s: float | None) -> float | None:
    """Return how long `work` takes; None if nothing is known that tells.

    Args:
        work: what is left.
        done: documents that were indexed lately, in the order of time.
        vectors_per_s: pace of the provider.
    """
    if not work.cut and not work.uncut:
        return _divide(work.kept_documents, measure_pace([(each.at_s, 1) for each in done]))
    embedded = [each for each in done if each.embeddings]
    if not work.cut and not embedded and len(done) >= _CONVINCING_DOCUMENTS:
        return _divide(work.uncut, measure_pace([(each.at_s, max(1, each.chunk_count)) for each in done]))
    # Documents that the cache had whole took no time, and tell nothing about the others.
    vectors = sum(each.embeddings for each in embedded)
    cached_share = sum(each.cached for each in embedded) / vectors if vectors else 0.0
    return _divide(work.cut + work.uncut / (1 + cached_share), vectors_per_s)


def _divide(amount: float, pace: float | None) -> float | None:
    return amount / pace if pace else None
