"""Compares the vectors of the chunks of a slice with what swaps have stored, and with the embedding cache.

MongoDB reads all live chunks for it and returns their hashes: it can't compute the keys of the cache itself.
"""

from typing import Final

from kb_reconciler.drift.bad_vector import BAD_VECTOR
from kb_reconciler.drift.comparisons import join_by_document, read_rows, union_jobs
from kb_reconciler.drift.missing_embedding import MISSING_EMBEDDING
from kb_reconciler.drift.vector_soundness import build_unsound_condition
from kb_reconciler.slices import Slice
from kb_shared.mongo import document_index, embedding_cache
from kb_shared.mongo.chunks_digest import build_vector_expression
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.embedding_cache import SPACES
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot

_KEYS_AT_ONCE: Final = 10_000
"""Number of keys that are looked up in the cache at once. A row has at most 2,000 more."""


async def find_vector_drift(database: Database, kb: KnowledgeBase, part: Slice) -> dict[str, str]:
    """Return the kind of drift by document, of documents of a slice without a job."""
    drift: dict[str, str] = {}
    documents_by_key: dict[str, list[str]] = {}
    async with current_snapshot(database) as snapshot:
        rows = await database[document_index.NAME].aggregate(_stages(kb, part), session=snapshot, allowDiskUse=True)
        async for row in rows:
            if row["is_bad"]:
                drift[row["_id"]] = BAD_VECTOR.name
                continue
            space = SPACES.read(row["space"])
            for chunk_hash in row["hashes"]:
                documents_by_key.setdefault(space.key(chunk_hash), []).append(row["_id"])
            if len(documents_by_key) >= _KEYS_AT_ONCE:
                drift |= await _find_missing(database, documents_by_key)
                documents_by_key = {}
    return drift | await _find_missing(database, documents_by_key)


async def _find_missing(database: Database, documents_by_key: dict[str, list[str]]) -> dict[str, str]:
    if not documents_by_key:
        return {}
    missing = await embedding_cache.find_missing(database, documents_by_key.keys())
    return {document_id: MISSING_EMBEDDING.name for key in missing for document_id in documents_by_key[key]}


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
