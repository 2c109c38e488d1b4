"""Compares the vectors of the chunks of a slice with what swaps have stored, and with the embedding cache.

MongoDB reads all live chunks for it and returns their hashes: it can't compute the keys of the cache itself.
"""

from collections.abc import Iterable
from typing import Final

from kb_reconciler.drift.bad_vector import BAD_VECTOR
from kb_reconciler.drift.comparisons import join_by_document, read_rows, union_jobs
from kb_reconciler.drift.missing_embedding import MISSING_EMBEDDING
from kb_reconciler.drift.vector_soundness import build_unsound_condition
from kb_reconciler.slices import Slice
from kb_shared.mongo import document_index, embedding_cache
from kb_shared.mongo.chunks_digest import build_vector_expression
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot

_KEYS_AT_ONCE: Final = 10_000
"""Number of keys that are looked up in the cache at once. A row has at most 2,000 more."""


async def find_vector_drift(database: Database, kb: KnowledgeBase, part: Slice) -> dict[str, str]:
    """Return the kind of drift by document, of documents of a slice without a job."""
    drift: dict[str, str] = {}
    lookups = _CacheLookups(database)
    async with current_snapshot(database) as snapshot:
        rows = await database[document_index.NAME].aggregate(_stages(kb, part), session=snapshot, allowDiskUse=True)
        async for row in rows:
            if row["is_bad"]:
                drift[row["_id"]] = BAD_VECTOR.name
                continue
            await lookups.add(row["_id"], document_index.VECTOR_SPACES.read(row["space"]), row["hashes"])
    return drift | dict.fromkeys(await lookups.finish(), MISSING_EMBEDDING.name)


class _CacheLookups:
    """Look-ups of keys of the embedding cache, many documents at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._documents: dict[str, dict[str, list[str]]] = {}
        """Documents by scope and key."""
        self._incomplete: set[str] = set()

    async def add(self, document_id: str, space: VectorSpace, chunk_hashes: Iterable[str]) -> None:
        of_scope = self._documents.setdefault(space.scope, {})
        for chunk_hash in chunk_hashes:
            of_scope.setdefault(space.key(chunk_hash), []).append(document_id)
        if len(of_scope) >= _KEYS_AT_ONCE:
            await self._look_up()

    async def finish(self) -> set[str]:
        """Return the documents of which the cache lacks a vector."""
        await self._look_up()
        return self._incomplete

    async def _look_up(self) -> None:
        for scope, documents in self._documents.items():
            missing = await embedding_cache.find_missing(self._database, scope, documents.keys())
            self._incomplete.update(document_id for key in missing for document_id in documents[key])
        self._documents = {}


def _stages(kb: KnowledgeBase, part: Slice) -> list[Row]:
    assert BAD_VECTOR.condition is not None
    is_bad = BAD_VECTOR.condition(kb)
    return [
        *read_rows(kb, part, fields=("vectors_digest", "vector_space")),
        _union_chunks(kb, part),
        union_jobs(kb, part),
        join_by_document("row", "chunks", "job"),
        {"$match": {"job": None, "row": {"$ne": None}}},
        {
            "$project": {
                "is_bad": is_bad,
                "space": "$row.vector_space",
                "hashes": {"$cond": [is_bad, [], {"$ifNull": ["$chunks.hashes", []]}]},
            }
        },
        # Documents that an older version has indexed have no space, so that their keys are unknown.
        {"$match": {"$or": [{"is_bad": True}, {"space": {"$ne": None}}]}},
    ]


def _union_chunks(kb: KnowledgeBase, part: Slice) -> Row:
    query = {"organization_id": kb.organization_id, "kb_id": kb.kb_id, **part.by_document, "until": None}
    grouped = {
        "_id": "$document_id",
        "unsound": {"$sum": {"$cond": [build_unsound_condition(kb.embedding_dimensions), 1, 0]}},
        "digest": {"$sum": build_vector_expression()},
        "hashes": {"$push": "$chunk_hash"},
    }
    chunks = {"unsound": "$unsound", "digest": "$digest", "hashes": "$hashes"}
    stages: list[Row] = [
        {"$match": query},
        {"$group": grouped},
        {"$project": {"_id": 0, "document_id": "$_id", "chunks": chunks}},
    ]
    return {"$unionWith": {"coll": kb.vector_collection, "pipeline": stages}}
