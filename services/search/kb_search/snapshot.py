"""Reads what the search indexes found, all of it at one moment."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from kb_search.coalescing import Place, stretches
from kb_search.legs import Ranking, Target
from kb_search.selection import Found, Hit, candidates_for, found_of, showable
from kb_shared.embedding.vector import Vector, from_binary
from kb_shared.mongo import document_index, vectors
from kb_shared.mongo.database import Database, Row, Session

_WIDER = 4


class Snapshot:
    """One moment of the collections."""

    def __init__(self, database: Database, session: Session) -> None:
        self._database = database
        self._session = session

    async def hits(self, target: Target, ranking: Ranking, *, wanted: int, min_score: float | None) -> Found:
        """Read candidates, the best first, until `wanted` may be shown and are relevant, or there are no more."""
        rows: dict[str, Row] = {}
        indexed: set[str] = set()
        read, size = 0, candidates_for(wanted)
        while True:
            ids = [candidate.chunk_id for candidate in ranking.candidates[read:size]]
            if ids:
                more = await vectors.read(target.chunks, self._session, ids, query_filter=target.query_filter)
                rows |= more
                indexed |= await self._indexed(target, {row["document_id"] for row in more.values()} - indexed)
            read = min(size, len(ranking.candidates))
            hits = showable(target.kb.kb_id, ranking.candidates[:read], rows, indexed)
            if min_score is not None:
                hits = await self.with_relevance(target, hits)
            unread = ranking.candidates[read:]
            found = found_of(hits, unread, min_score=min_score, exhausted=ranking.exhausted)
            if len(found.hits) >= wanted or not found.unread:
                return found
            size *= _WIDER

    async def _indexed(self, target: Target, document_ids: Collection[str]) -> set[str]:
        if not document_ids:
            return set()
        kb = target.kb
        versions = await document_index.versions(
            self._database, self._session, kb.organization_id, kb.kb_id, document_ids
        )
        return set(versions)

    async def with_relevance(self, target: Target, hits: Sequence[Hit]) -> list[Hit]:
        """Compare the query with the vectors of hits that only the text index found."""
        unknown = [hit.chunk["_id"] for hit in hits if hit.relevance is None]
        if target.vector is None or not unknown:
            return [*hits]
        embeddings = await vectors.embeddings(target.chunks, self._session, unknown)
        scores = {chunk_id: _score(target.vector, from_binary(binary)) for chunk_id, binary in embeddings.items()}
        return [replace(hit, cosine_score=scores.get(hit.chunk["_id"])) for hit in hits]

    async def neighbours(self, target: Target, matches: Sequence[Hit], width: int) -> dict[Place, Row]:
        """Read the chunks beside matches, of the same version of their documents, in one query."""
        if not width or not matches:
            return {}
        wanted = [
            (stretch.document_id, stretch.first, stretch.last)
            for stretch in stretches([hit.place for hit in matches], width)
        ]
        rows = await vectors.read_stretches(target.chunks, self._session, wanted)
        shown = vectors.of_the_same_versions(rows, [hit.chunk for hit in matches])
        return {Place(target.kb.kb_id, row["document_id"], row["chunk_index"]): row for row in shown}


def _score(query: Vector, vector: Vector) -> float:
    """(1 + cos) / 2."""
    one, other = query.astype(np.float64), vector.astype(np.float64)
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return (1 + float(one @ other) / norms) / 2 if norms else 0.5
