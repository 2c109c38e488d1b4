"""Which of the hits of the search indexes are results, in which order; and which page of them is answered. Pure.

The indexes trail the collection, so their hits are only ids with scores. What they are is what one snapshot of the
collection says.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kb_search.retrieval.coalescing import ChunkPosition
from kb_search.retrieval.fusion import Candidate
from kb_search.store.found_chunks import visible
from kb_shared.mongo.database import Row
from kb_shared.mongo.vectors import document_of

MOST_CANDIDATES: Final = 10_000
_OVERFETCH: Final = 1.2
_SPARE: Final = 10
_FUSED_DEPTHS: Final = (100, 400, 1_600)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that may be shown, as the snapshot has it."""

    kb_id: str
    chunk: Row
    scores: Candidate
    cosine_score: float | None = None
    """(1 + cos) / 2 as computed here, where the vector index did not give it."""

    @property
    def relevance(self) -> float | None:
        """0..1; None where nobody compared vectors. Rounding of float32 can put a score slightly beyond."""
        score = self.scores.vector if self.scores.vector is not None else self.cosine_score
        return None if score is None else min(max(score, 0.0), 1.0)

    @property
    def place(self) -> ChunkPosition:
        return ChunkPosition(self.kb_id, self.chunk["document_id"], self.chunk["chunk_index"])

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts the best first; equal scores stand in a fixed order, so that pages neither repeat nor miss a hit."""
        return *self.scores.order, self.place

    def passes(self, min_score: float | None) -> bool:
        """Tell whether it stays under a minimum of relevance; a match of the word index always does (ADR 22)."""
        relevance = self.relevance
        return min_score is None or self.scores.text is not None or relevance is None or relevance >= min_score


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates and hits of one KB."""

    hits: Sequence[Hit]
    """Hits that may be shown and pass the minimum, best first; enough for the page if there are."""
    unread: int
    """Candidates beyond."""
    is_all: bool
    """There are no others than these."""


@dataclass(frozen=True, slots=True)
class Page:
    hits: Sequence[Hit]
    total_count: int
    total_count_is_exact: bool


def candidates_for(wanted: int) -> int:
    """How many hits to ask for, so that a page stays full when some of them may not be shown."""
    return _a_fifth_more(wanted) + _SPARE


def first_read(candidates: Sequence[Candidate], wanted: int, *, are_all: bool, by_relevance: bool) -> int:
    """How many of them to read at first.

    Enough where no document of them has just changed or left; but all if these few are all there are, so that they are
    counted, and more where a hit has to be relevant, too.
    """
    most = candidates_for(wanted)
    enough = most if by_relevance or (are_all and len(candidates) <= most) else _a_fifth_more(wanted)
    return through_ties(candidates, enough)


def _a_fifth_more(wanted: int) -> int:
    return math.ceil(wanted * _OVERFETCH)


def through_ties(candidates: Sequence[Candidate], size: int) -> int:
    """Give how many of the candidates to read, so that none is left that is as good as the last of them.

    Which of those comes first is known only of what was read: pages that read different ones would repeat and miss
    hits.
    """
    while 0 < size < len(candidates) and candidates[size].order == candidates[size - 1].order:
        size += 1
    return size


def giving_way(hits: Iterable[Hit], unread: Iterable[Candidate]) -> bool:
    """Return whether a hit was replaced and others of its document are unread: a live one is shown instead."""
    replaced = {hit.chunk["document_id"] for hit in hits if hit.chunk["until"] is not None}
    return bool(replaced) and any(document_of(one.chunk_id) in replaced for one in unread)


def depth_for(wanted: int, *, fused: bool) -> int:
    """How many hits to ask an index for.

    The rank of a chunk in one leg changes what its rank in the other is worth: so that the order of the first pages
    does not depend on which of them is asked for, two legs are asked for the same depth for all of them.
    """
    needed = candidates_for(wanted)
    return steady(needed) if fused else needed


def steady(depth: int) -> int:
    """Give the depth to ask for instead, where what lies deeper changes the order: the same for all the first pages."""
    return next((one for one in _FUSED_DEPTHS if one >= depth), depth)


def showable(
    kb_id: str, candidates: Iterable[Candidate], rows: Mapping[str, Row], indexed: Collection[str]
) -> list[Hit]:
    """Give the hits that may be shown together, best first.

    Args:
        candidates: what the indexes found.
        rows: of those chunks that are there and match the filter, by chunk id, of one snapshot.
        indexed: the documents that are in the KB at that snapshot.
    """
    by_document: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        if row["document_id"] in indexed:
            by_document[row["document_id"]].append(row)
    shown = {row["_id"]: row for of_one in by_document.values() for row in visible(of_one)}
    hits = [Hit(kb_id, shown[one.chunk_id], one) for one in candidates if one.chunk_id in shown]
    return sorted(hits, key=lambda hit: hit.order)


def found_of(
    hits: Sequence[Hit], unread: Sequence[Candidate], *, min_score: float | None, exhausted: bool, no_more_words: bool
) -> Found:
    """Tell what is known of a KB.

    Args:
        hits: all that were read and may be shown, best first.
        unread: candidates that were not read.
        min_score: of relevance.
        exhausted: the indexes have nothing beyond the candidates.
        no_more_words: the index of words has nothing beyond them.
    """
    passing = [hit for hit in hits if hit.passes(min_score)]
    if min_score is None:
        return Found(passing, len(unread), is_all=exhausted and not unread)
    scores = [one.vector for one in (*(hit.scores for hit in hits), *unread) if one.vector is not None]
    # Whatever the vector index still has is worse than a hit that is not relevant enough already.
    cut = no_more_words and bool(scores) and min(scores) < min_score
    left = [one for one in unread if one.text is not None or one.vector is None or one.vector >= min_score]
    return Found(passing, len(left), is_all=(exhausted or cut) and not left)


def page_of(found: Sequence[Found], *, skip: int, top_k: int) -> Page:
    """Cut one page out of the hits of one KB or several. A chunk that stands in several comes once, in the first.

    Ranks of different KBs are compared, by what they were worth in the fusion; scores of different models never.
    """
    hits: dict[str, Hit] = {}
    # In one KB they are in order already.
    ranked = found[0].hits if len(found) == 1 else sorted((hit for one in found for hit in one.hits), key=_across)
    for hit in ranked:
        hits.setdefault(hit.chunk["_id"], hit)
    return Page(
        hits=[*hits.values()][skip : skip + top_k],
        total_count=len(hits) + sum(one.unread for one in found),
        total_count_is_exact=all(one.is_all for one in found),
    )


def _across(hit: Hit) -> tuple[object, ...]:
    return hit.scores.order[0], hit.kb_id, *hit.order
