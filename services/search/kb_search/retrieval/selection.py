"""Selects the candidates that become hits, orders them, and cuts the page. Pure.

The search indexes lag behind the collection, so they give only ids and scores (candidates). The chunks themselves come
from one snapshot of the collection.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kb_search.retrieval.coalescing import ChunkPosition
from kb_search.retrieval.fusion import Candidate
from kb_search.store.found_chunks import select_visible
from kb_shared.mongo.database import Row
from kb_shared.mongo.vectors import document_of

MAX_CANDIDATES: Final = 10_000
LIMIT_GROWTH: Final = 4
"""Factor by which the number of candidates grows when an index is asked again."""
_OVERFETCH: Final = 1.2
_SPARE: Final = 10
_SHARED_LIMITS: Final = (100, 400, 1_600)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that may be shown, as it is in the snapshot."""

    kb_id: str
    chunk: Row
    scores: Candidate
    cosine_score: float | None = None
    """Score (1 + cos) / 2, computed here because the vector index did not return the chunk."""
    is_entry: bool = False
    """True of a chunk of an entry of knowledge, which is something of its own even if another has the same text."""
    copies: tuple["Hit", ...] = ()
    """Other hits with the same text, which are named with this one and take no place of their own."""

    @property
    def relevance(self) -> float | None:
        """Return the relevance, 0 to 1; None if no vectors were compared. A float32 score can be slightly above 1."""
        score = self.scores.vector if self.scores.vector is not None else self.cosine_score
        return None if score is None else min(max(score, 0.0), 1.0)

    @property
    def position(self) -> ChunkPosition:
        return ChunkPosition(self.kb_id, self.chunk["document_id"], self.chunk["chunk_index"])

    @property
    def order(self) -> tuple[object, ...]:
        """Return the sort key, best first. Equal scores have a fixed order: pages neither repeat nor miss a hit."""
        return *self.scores.order, self.position

    @property
    def passage(self) -> tuple[object, ...]:
        """Return what a reader sees of the chunk: equal for copies. A price under another heading is another one."""
        entry = (self.chunk["document_id"],) if self.is_entry else ()
        return *entry, *self.chunk.get("heading_path", ()), self.chunk["chunk_text"].strip()

    def passes(self, min_score: float | None) -> bool:
        """Return whether the hit passes a minimum of relevance; a match of the text index always does (ADR 22)."""
        relevance = self.relevance
        return min_score is None or self.scores.text is not None or relevance is None or relevance >= min_score


@dataclass(frozen=True, slots=True)
class KnowledgeBaseHits:
    """Hits of one KB."""

    hits: Sequence[Hit]
    """Hits that may be shown and pass the minimum, best first, without copies of better ones; enough for the page if
    there are so many."""
    unread: int
    """Number of unread candidates that may become hits."""
    is_all: bool
    """True if there are no hits but these."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Hits of one page, and how many there are in all."""

    hits: Sequence[Hit]
    total_count: int
    total_count_is_exact: bool


def candidates_to_read(matches_needed: int) -> int:
    """Return how many candidates to request, so that a page is full even if some may not be shown."""
    return _overfetch(matches_needed) + _SPARE


def first_read_size(candidates: Sequence[Candidate], matches_needed: int, *, are_all: bool, by_relevance: bool) -> int:
    """Return how many candidates to read first.

    Usually a fifth more than needed: enough unless documents among them have just changed or left. Ten more if a hit
    must also have a minimum of relevance, or if all candidates can be read so: then their count is exact.
    """
    most = candidates_to_read(matches_needed)
    enough = most if by_relevance or (are_all and len(candidates) <= most) else _overfetch(matches_needed)
    return extend_over_ties(candidates, enough)


def _overfetch(matches_needed: int) -> int:
    return math.ceil(matches_needed * _OVERFETCH)


def extend_over_ties(candidates: Sequence[Candidate], size: int) -> int:
    """Return `size`, increased until the next candidate has a lower score than the last one that is read.

    The order of candidates with equal scores is known only after they are read. Pages that read different ones of them
    would repeat and miss hits.
    """
    while 0 < size < len(candidates) and candidates[size].order == candidates[size - 1].order:
        size += 1
    return size


def end_of_ties(scores: Sequence[float], limit: int) -> int:
    """Return where the scores that equal the one at `limit`, best first, end."""
    end = limit
    while 0 < end < len(scores) and scores[end] == scores[limit - 1]:
        end += 1
    return end


def may_be_superseded(hits: Iterable[Hit], unread: Iterable[Candidate]) -> bool:
    """Return whether a hit is retired and another chunk of its document is unread: a live one would supersede it."""
    every = [one for hit in hits for one in (hit, *hit.copies)]
    retired = {hit.chunk["document_id"] for hit in every if hit.chunk["until"] is not None}
    return bool(retired) and any(document_of(one.chunk_id) in retired for one in unread)


def leg_limit(matches_needed: int) -> int:
    """Return how many candidates to request from an index.

    Whether a chunk that is near has some of the words is known only if the text leg returns it, and which of several
    equal chunks an index returns depends on its limit. The limit is therefore the same for all of the first pages.
    """
    return next_limit(candidates_to_read(matches_needed))


def next_limit(limit: int) -> int:
    """Return the next limit that several pages share; above the greatest of these, `limit` itself."""
    return next((one for one in _SHARED_LIMITS if one >= limit), limit)


def select_visible_hits(
    kb_id: str,
    candidates: Iterable[Candidate],
    *,
    rows: Mapping[str, Row],
    indexed: Collection[str],
    are_entries: bool = False,
) -> list[Hit]:
    """Return the hits that may be shown together, best first.

    Args:
        candidates: Candidates from the indexes.
        rows: Rows of the candidates that exist and match the filter in the snapshot, by chunk id.
        indexed: Ids of the documents that are in the KB in the snapshot.
        are_entries: True if the documents of the KB are entries of knowledge.
    """
    by_document: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        if row["document_id"] in indexed:
            by_document[row["document_id"]].append(row)
    shown = {row["_id"]: row for of_document in by_document.values() for row in select_visible(of_document)}
    hits = [Hit(kb_id, shown[one.chunk_id], one, is_entry=are_entries) for one in candidates if one.chunk_id in shown]
    return sorted(hits, key=lambda hit: hit.order)


def filter_by_min_score(
    hits: Sequence[Hit], unread: Sequence[Candidate], *, min_score: float | None, exhausted: bool, text_exhausted: bool
) -> KnowledgeBaseHits:
    """Keep the hits that pass `min_score`, and decide whether there can be others.

    Args:
        hits: All hits that were read and may be shown, best first.
        unread: Candidates that were not read.
        min_score: Minimum of relevance; None for no minimum.
        exhausted: True if the indexes have no other candidates.
        text_exhausted: True if the text index has no other candidates.
    """
    passing = [hit for hit in hits if hit.passes(min_score)]
    if min_score is None:
        return KnowledgeBaseHits(merge_copies(passing), len(unread), is_all=exhausted and not unread)
    scores = [one.vector for one in (*(hit.scores for hit in hits), *unread) if one.vector is not None]
    # The vector index returned a chunk below the minimum, so all others that it has are below it, too.
    is_below_minimum = text_exhausted and bool(scores) and min(scores) < min_score
    possible = [one for one in unread if one.text is not None or one.vector is None or one.vector >= min_score]
    return KnowledgeBaseHits(
        merge_copies(passing), len(possible), is_all=(exhausted or is_below_minimum) and not possible
    )


def merge_copies(ranked: Iterable[Hit]) -> list[Hit]:
    """Return the first of the hits with equal texts, each with the others, in the order of `ranked`."""
    by_passage: dict[tuple[object, ...], list[Hit]] = {}
    for hit in ranked:
        by_passage.setdefault(hit.passage, []).append(hit)
    return [
        first
        if not others
        else replace(first, copies=(*first.copies, *others, *(one for hit in others for one in hit.copies)))
        for first, *others in by_passage.values()
    ]


def cut_page(found: Sequence[KnowledgeBaseHits], *, skip: int, top_k: int) -> ResultPage:
    """Cut one page out of the hits of one KB or several. A chunk that is in several KBs is returned once, and so are
    chunks with the same text.

    Hits of different KBs are compared by their fused scores, in which each index of each KB has a scale of its own,
    never by scores of different models.
    """
    hits: dict[str, Hit] = {}
    # The hits of one KB are already in order.
    ranked = (
        found[0].hits if len(found) == 1 else sorted((hit for one in found for hit in one.hits), key=_order_across_kbs)
    )
    for hit in ranked:
        hits.setdefault(hit.chunk["_id"], hit)
    different = [*hits.values()] if len(found) == 1 else merge_copies(hits.values())
    return ResultPage(
        hits=different[skip : skip + top_k],
        total_count=len(different) + sum(one.unread for one in found),
        total_count_is_exact=all(one.is_all for one in found),
    )


def _order_across_kbs(hit: Hit) -> tuple[object, ...]:
    return hit.scores.order[0], hit.kb_id, *hit.order
