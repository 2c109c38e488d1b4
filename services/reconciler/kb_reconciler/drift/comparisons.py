"""Compares collections on the server and returns only what differs. Documents without drift cost no transfer.

A comparison reads one snapshot: a swap, its row and its job are seen together or not at all.
"""

from typing import Final

from kb_reconciler.drift.kinds import Comparison
from kb_reconciler.drift.registry import DOCUMENT_DRIFT
from kb_reconciler.slices import Slice
from kb_shared.mongo import document_index, documents, index_jobs
from kb_shared.mongo.chunks_digest import build_chunk_expression
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot

# `null` and a missing field alike: the index that answers the query does not tell them apart.
_IS_LIVE: Final[Row] = {"$lte": ["$until", None]}


async def find_membership_drift(database: Database, kb: KnowledgeBase, part: Slice) -> dict[str, str]:
    """Return the kind of drift by document, of documents of a slice without a job."""
    return await _compare(
        database,
        kb,
        Comparison.MEMBERSHIP,
        rows=read_rows(
            kb,
            part,
            fields=("content_digest", "text_revision", "snapshot_digest", "config_hash", "content_checked"),
        ),
        others={"document": _union_documents(kb, part), "job": union_jobs(kb, part)},
    )


async def find_chunk_drift(database: Database, kb: KnowledgeBase, part: Slice) -> dict[str, str]:
    """Return the kind of drift by document, of documents of a slice. Reads an index of the chunks and no chunk."""
    return await _compare(
        database,
        kb,
        Comparison.CHUNKS,
        rows=read_rows(kb, part, fields=("chunk_count", "chunks_digest")),
        others={"chunks": _union_chunks(kb, part), "job": union_jobs(kb, part)},
    )


async def _compare(
    database: Database, kb: KnowledgeBase, comparison: Comparison, *, rows: list[Row], others: dict[str, Row]
) -> dict[str, str]:
    branches = [
        {"case": kind.condition(kb), "then": kind.name}
        for kind in DOCUMENT_DRIFT
        if kind.comparison is comparison and kind.condition is not None
    ]
    stages = [
        *rows,
        *others.values(),
        join_by_document("row", *others),
        {"$match": {"job": None}},
        {"$project": {"kind": {"$switch": {"branches": branches, "default": None}}}},
        {"$match": {"kind": {"$ne": None}}},
    ]
    async with current_snapshot(database) as snapshot:
        found = await database[document_index.NAME].aggregate(stages, session=snapshot, allowDiskUse=True)
        return {row["_id"]: row["kind"] async for row in found}


def join_by_document(*names: str) -> Row:
    """Build the stage that makes one row for each document of those of several collections."""
    # `$max` takes the one value that is not missing.
    return {"$group": {"_id": "$document_id"} | {name: {"$max": f"${name}"} for name in names}}


def read_rows(kb: KnowledgeBase, part: Slice, *, fields: tuple[str, ...]) -> list[Row]:
    """Build the stages that read rows of `document_index`."""
    query = {"organization_id": kb.organization_id, "kb_id": kb.kb_id, **part.by_document}
    return [
        {"$match": query},
        {"$project": {"_id": 0, "document_id": 1, "row": {name: f"${name}" for name in fields}}},
    ]


def _union_documents(kb: KnowledgeBase, part: Slice) -> Row:
    query = {"organization_id": kb.organization_id, "tag_ids": {"$in": list(kb.tag_ids)}, **part.by_document}
    fields = ("alive", "text_id", "text_revision", "chunk_metadata_digest", "digested_version", "projection_version")
    document = {name: f"${name}" for name in fields}
    return _union(documents.NAME, query, {"_id": 0, "document_id": 1, "document": document})


def union_jobs(kb: KnowledgeBase, part: Slice) -> Row:
    """Build the stage that adds the jobs of a slice to the compared rows."""
    query = {"organization_id": kb.organization_id, **part.by_row_id(kb.kb_id)}
    return _union(index_jobs.NAME, query, {"_id": 0, "document_id": 1, "job": "$state"})


def _union(collection: str, query: Row, fields: Row) -> Row:
    return {"$unionWith": {"coll": collection, "pipeline": [{"$match": query}, {"$project": fields}]}}


def _union_chunks(kb: KnowledgeBase, part: Slice) -> Row:
    query = {"organization_id": kb.organization_id, "kb_id": kb.kb_id, **part.by_document}
    grouped = {
        "_id": "$document_id",
        "live": {"$sum": {"$cond": [_IS_LIVE, 1, 0]}},
        "digest": {"$sum": {"$cond": [_IS_LIVE, build_chunk_expression(), 0]}},
    }
    chunks = {"_id": 0, "document_id": "$_id", "chunks": {"live": "$live", "digest": "$digest"}}
    stages: list[Row] = [{"$match": query}, {"$group": grouped}, {"$project": chunks}]
    return {"$unionWith": {"coll": kb.vector_collection, "pipeline": stages}}
