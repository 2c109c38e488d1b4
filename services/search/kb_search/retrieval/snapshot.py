"""Reads what the search indexes found, all of it at one moment."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kb_search.retrieval.coalescing import ChunkPosition, stretches
from kb_search.retrieval.fusion import Candidate
from kb_search.retrieval.legs import Ranking, Target
from kb_search.retrieval.optimistic_read import OptimisticRead
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.selection import (
    Found,
    Hit,
    candidates_for,
    first_read,
    found_of,
    giving_way,
    showable,
    through_ties,
)
from kb_search.store import found_chunks
from kb_shared.mongo.database import MongoSession, Row
from kb_shared.mongo.vector import Vector, from_binary

_WIDER = 4


class ReadSnapshot:
    """One moment of the collections."""

    def __init__(self, session: MongoSession, optimistic_read: OptimisticRead) -> None:
        """Take what the session sees; `optimistic_read` is checked with the first hits."""
        self._session = session
        self._unchecked: OptimisticRead | None = optimistic_read

    async def hits(self, target: Target, ranking: Ranking, query: SearchQuery, *, min_score: float | None) -> Found:
        """Read candidates, the best first, until all that the page needs may be shown and pass the minimum.

        Fewer, if there are no more. Raises StaleRead.
        """
        rows: dict[str, Row] = {}
        indexed: set[str] = set()
        in_all: int | None = None
        are_all = ranking.exhausted or ranking.doubtful
        by_relevance = min_score is not None
        read, size = 0, first_read(ranking.candidates, query.wanted, are_all=are_all, by_relevance=by_relevance)
        # One more than there can be among the candidates is more already.
        count_up_to = len(ranking.candidates) + 1 if ranking.doubtful and target.small else 0
        while True:
            ids = [candidate.chunk_id for candidate in ranking.candidates[read:size]]
            if ids or count_up_to or self._unchecked:
                # Where the vector index gave no score, only what is shown needs one: no minimum looks at it.
                compared = slice(query.skip, query.wanted)
                found_rows = await found_chunks.read(
                    target.chunks,
                    self._session,
                    ids,
                    query_filter=target.query_filter,
                    with_vectors=_without_score(target, ranking.candidates[compared]),
                    count_up_to=count_up_to,
                    others=self._unchecked.stages if self._unchecked else (),
                    other_rows=self._unchecked.rows if self._unchecked else 0,
                )
                if self._unchecked:
                    self._unchecked.check(found_rows.others)
                    self._unchecked = None
                rows |= found_rows.rows
                indexed |= found_rows.indexed
                in_all = found_rows.in_all if count_up_to else in_all
                count_up_to = 0
            read = min(size, len(ranking.candidates))
            hits = showable(target.kb.kb_id, ranking.candidates[:read], rows, indexed)
            unread = ranking.candidates[read:]
            has_all = ranking.exhausted or sum(row["until"] is None for row in rows.values()) == in_all
            found = found_of(hits, unread, min_score=min_score, exhausted=has_all, no_more_words=ranking.no_more_words)
            if (len(found.hits) >= query.wanted or not found.unread) and not giving_way(found.hits, unread):
                return found
            size = through_ties(ranking.candidates, max(size * _WIDER, candidates_for(query.wanted)))

    async def with_relevance(self, target: Target, hits: Sequence[Hit]) -> list[Hit]:
        """Compare the query with the vectors of hits that only the text index found."""
        compared = [hit.chunk for hit in hits if hit.relevance is None]
        if target.vector is None or not compared:
            return [*hits]
        embeddings = {chunk["_id"]: chunk["embedding"] for chunk in compared if "embedding" in chunk}
        if missing := [chunk["_id"] for chunk in compared if chunk["_id"] not in embeddings]:
            embeddings |= await found_chunks.embeddings(target.chunks, self._session, missing)
        scores = dict(zip(embeddings, _scores(target.vector, embeddings.values()), strict=True))
        return [replace(hit, cosine_score=scores[hit.chunk["_id"]]) if hit.relevance is None else hit for hit in hits]

    async def neighbours(self, target: Target, matches: Sequence[Hit], width: int) -> dict[ChunkPosition, Row]:
        """Read the chunks beside matches, of the same version of their documents, in one query."""
        if not width or not matches:
            return {}
        wanted = [
            (stretch.document_id, stretch.first, stretch.last)
            for stretch in stretches([hit.place for hit in matches], width)
        ]
        rows = await found_chunks.read_stretches(target.chunks, self._session, wanted)
        shown = found_chunks.of_the_same_versions(rows, [hit.chunk for hit in matches])
        return {ChunkPosition(target.kb.kb_id, row["document_id"], row["chunk_index"]): row for row in shown}


def _without_score(target: Target, candidates: Sequence[Candidate]) -> list[str]:
    """Return the ids of the chunks whose vectors have to be compared here."""
    return [] if target.vector is None else [one.chunk_id for one in candidates if one.vector is None]


def _scores(query: Vector, binaries: Iterable[bytes]) -> list[float]:
    """(1 + cos) / 2 of each."""
    one, others = query.astype(np.float64), np.array([from_binary(binary) for binary in binaries], np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(others, axis=1)
    cosines = np.divide(others @ one, norms, out=np.zeros_like(norms), where=norms > 0)
    scores: list[float] = ((1 + cosines) / 2).tolist()
    return scores
