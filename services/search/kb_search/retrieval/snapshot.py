"""Reads the candidates of a search from the collections, all of them at one point in time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kb_search.retrieval.coalescing import ChunkPosition, neighbour_ranges
from kb_search.retrieval.fusion import Candidate
from kb_search.retrieval.legs import RankedCandidates, SearchTarget
from kb_search.retrieval.optimistic_read import OptimisticRead
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.selection import (
    Hit,
    KnowledgeBaseHits,
    candidates_to_read,
    extend_over_ties,
    filter_by_min_score,
    first_read_size,
    may_be_superseded,
    select_visible_hits,
)
from kb_search.store import found_chunks
from kb_search.store.found_chunks import FoundChunks
from kb_shared.mongo.database import MongoSession, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBaseKind
from kb_shared.mongo.vector import Vector, from_binary

_BATCH_GROWTH = 4


@dataclass(slots=True)
class _ReadCandidates:
    """All that was read of the candidates of one KB so far."""

    rows: dict[str, Row] = field(default_factory=dict)
    """Rows by chunk id. A candidate that was deleted, or that no longer matches the filter, has none."""
    indexed: set[str] = field(default_factory=set)
    """Ids of the documents that are in the KB."""
    live_count: int | None = None
    """Number of live chunks in the KB that match the filter; None if they were not counted."""

    def add(self, found: FoundChunks, *, is_counted: bool) -> None:
        self.rows |= found.rows
        self.indexed |= found.indexed
        if is_counted:
            self.live_count = found.live_count

    @property
    def has_all_live_chunks(self) -> bool:
        return sum(row["until"] is None for row in self.rows.values()) == self.live_count


class ReadSnapshot:
    """One point in time of the collections."""

    def __init__(self, session: MongoSession, optimistic_read: OptimisticRead) -> None:
        """Read what `session` sees; the first query of hits also checks `optimistic_read`."""
        self._session = session
        self._unchecked: OptimisticRead | None = optimistic_read

    async def read_hits(
        self, target: SearchTarget, ranked: RankedCandidates, *, query: SearchQuery, min_score: float | None
    ) -> KnowledgeBaseHits:
        """Read candidates, best first, until the page is filled with hits or no candidate is left.

        A candidate is an id that a search index returned. The index lags, so its chunk may be deleted, retired, or
        changed so that it does not match the filter any more. It becomes a hit only if its row may be shown
        (`select_visible_hits`) and passes `min_score`. Most candidates do, so they are read in batches:

        1. The first batch has a fifth more candidates than the page needs. It has all of them if there are only a few
           more than that and the indexes have no others: then the total count is exact.
        2. Reading ends when there are enough hits, or no unread candidate can become one; but it continues while a hit
           is retired and another candidate of its document is unread: if that one is live, it supersedes the hit
           (rule 1 of docs/explanation/architecture.md).
        3. Otherwise the next batch is read, up to four times as many candidates in all.

        Example: a page needs 5 hits, and there are 100 candidates. The first 6 are read. Two of them were deleted a
        second ago, so there are 4 hits. Candidates 7 to 24 are read next, and the best 5 hits of all are the page.

        Raises:
            StaleRead: The key or a KB has changed since the search began.
        """
        candidates = ranked.candidates
        read = _ReadCandidates()
        start, end = 0, self._end_of_first_batch(ranked, query, min_score=min_score)
        is_counted = ranked.may_be_exhausted and target.is_small
        while True:
            ids = [candidate.chunk_id for candidate in candidates[start:end]]
            # Without ids there can still be something to count, or a key and KBs to check.
            if ids or is_counted or self._unchecked:
                # A count above the number of candidates proves that some were not found: there is no need to go on.
                count_up_to = len(candidates) + 1 if is_counted else 0
                read.add(
                    await self._read_batch(target, ids, ranked=ranked, query=query, count_up_to=count_up_to),
                    is_counted=is_counted,
                )
                is_counted = False
            start = min(end, len(candidates))
            unread = candidates[start:]
            found = filter_by_min_score(
                select_visible_hits(
                    target.kb.kb_id,
                    candidates[:start],
                    rows=read.rows,
                    indexed=read.indexed,
                    are_entries=target.kb.kind is KnowledgeBaseKind.KNOWLEDGE,
                ),
                unread,
                min_score=min_score,
                exhausted=ranked.exhausted or read.has_all_live_chunks,
                text_exhausted=ranked.text_exhausted,
            )
            is_filled = len(found.hits) >= query.matches_needed or not found.unread
            if is_filled and not may_be_superseded(found.hits, unread):
                return found
            end = extend_over_ties(candidates, max(end * _BATCH_GROWTH, candidates_to_read(query.matches_needed)))

    def _end_of_first_batch(self, ranked: RankedCandidates, query: SearchQuery, *, min_score: float | None) -> int:
        return first_read_size(
            ranked.candidates,
            query.matches_needed,
            are_all=ranked.exhausted or ranked.may_be_exhausted,
            by_relevance=min_score is not None,
        )

    async def _read_batch(
        self,
        target: SearchTarget,
        ids: Sequence[str],
        *,
        ranked: RankedCandidates,
        query: SearchQuery,
        count_up_to: int,
    ) -> FoundChunks:
        # A candidate without a score of the vector index passes every minimum. It needs its relevance only if it is on
        # the page, so only the vectors of this part are read.
        on_page = ranked.candidates[query.skip : query.matches_needed]
        found = await found_chunks.read_found(
            target.chunks,
            self._session,
            ids,
            query_filter=target.query_filter,
            with_vectors=_ids_without_vector_score(target, on_page),
            count_up_to=count_up_to,
            extra_stages=self._unchecked.extra_stages if self._unchecked else (),
            max_extra_rows=self._unchecked.max_extra_rows if self._unchecked else 0,
        )
        if self._unchecked:
            self._unchecked.check(found.extra_rows)
            self._unchecked = None
        return found

    async def add_relevance(self, target: SearchTarget, hits: Sequence[Hit]) -> list[Hit]:
        """Compute the relevance of hits that only the text index found."""
        compared = [hit.chunk for hit in hits if hit.relevance is None]
        if target.vector is None or not compared:
            return [*hits]
        embeddings = {chunk["_id"]: chunk["embedding"] for chunk in compared if "embedding" in chunk}
        if missing := [chunk["_id"] for chunk in compared if chunk["_id"] not in embeddings]:
            embeddings |= await found_chunks.read_embeddings(target.chunks, self._session, missing)
        scores = dict(zip(embeddings, _cosine_scores(target.vector, embeddings.values()), strict=True))
        return [replace(hit, cosine_score=scores[hit.chunk["_id"]]) if hit.relevance is None else hit for hit in hits]

    async def read_neighbours(
        self, target: SearchTarget, matches: Sequence[Hit], *, width: int
    ) -> dict[ChunkPosition, Row]:
        """Read the chunks beside matches, of the same version of their documents, in one query."""
        if not width or not matches:
            return {}
        ranges = [
            (chunk_range.document_id, chunk_range.first, chunk_range.last)
            for chunk_range in neighbour_ranges([hit.position for hit in matches], width)
        ]
        rows = await found_chunks.read_ranges(target.chunks, self._session, ranges)
        neighbours = found_chunks.select_same_versions(rows, [hit.chunk for hit in matches])
        return {ChunkPosition(target.kb.kb_id, row["document_id"], row["chunk_index"]): row for row in neighbours}


def _ids_without_vector_score(target: SearchTarget, candidates: Sequence[Candidate]) -> list[str]:
    """Return the ids of the chunks whose vectors have to be compared here."""
    return [] if target.vector is None else [one.chunk_id for one in candidates if one.vector is None]


def _cosine_scores(query: Vector, binaries: Iterable[bytes]) -> list[float]:
    """Return (1 + cos) / 2 of the query and each vector."""
    one, others = query.astype(np.float64), np.array([from_binary(binary) for binary in binaries], np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(others, axis=1)
    cosines = np.divide(others @ one, norms, out=np.zeros_like(norms), where=norms > 0)
    scores: list[float] = ((1 + cosines) / 2).tolist()
    return scores
