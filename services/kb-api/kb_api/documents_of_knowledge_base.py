"""Lists the documents of a KB with their states.

`document_index` has the indexed documents, `index_jobs` the open and failed work. One aggregation joins them, page by
page.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING

from kb_contracts.api.memberships import EmbeddingProgress, IndexStatus, ListedDocumentSort, OpenJobStatus, StatusFilter
from kb_shared.mongo import document_index, documents, index_jobs
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

AggregationStage = dict[str, Any]

_INDEX_FIELDS: Final = {"document_id": 1, "document_name": 1, "chunk_count": 1, "indexed_at": 1, "_id": 0}
_LEASE_IS_OVER: Final = {"$lt": ["$lease_until", "$$NOW"]}
_JOB_FIELDS: Final = {
    "document_id": 1,
    # A worker whose lease has expired is not working any more; the sweeper gives its job to another.
    "state": {"$cond": [{"$and": [{"$eq": ["$state", "running"]}, _LEASE_IS_OVER]}, "pending", "$state"]},
    "embedding": {
        "$cond": [
            {"$gt": ["$chunk_count", None]},
            {"chunk_count": "$chunk_count", "embedded_count": "$embedded_count"},
            None,
        ]
    },
    "attempts": 1,
    "error_type": 1,
    "error_message": 1,
    "next_attempt_at": {"$cond": [{"$gt": ["$postponed_until", "$$NOW"]}, "$postponed_until", None]},
    "_id": 0,
}


@dataclass(frozen=True, slots=True)
class ListedDocument:
    document_id: str
    document_name: str | None
    """Name; None until the text has come."""
    status: IndexStatus | OpenJobStatus
    chunk_count: int
    """Number of chunks that are searchable now, also while a newer text is being indexed."""
    embedding: EmbeddingProgress | None
    indexed_at: datetime | None
    attempts: int
    error_type: str | None
    error_message: str | None
    next_attempt_at: datetime | None
    """Time of the next attempt; None if it can begin now, or if there is none."""


async def list_documents(
    database: Database,
    kb: KnowledgeBase,
    status: StatusFilter | None,
    *,
    name_search: str | None,
    sort: ListedDocumentSort = "document_id",
    after: str | None = None,
    skip: int,
    limit: int,
) -> tuple[list[ListedDocument], int]:
    """Return one page, and the number of all.

    Args:
        status: None: all indexed documents, also empty ones, without their jobs; `all`: also those that are not
            indexed, where an open job decides the status.
        name_search: literal part of the name of the document; upper and lower case are equal.
        sort: order; documents that are equal in it are in the order of their ids.
        after: last document of the page before, in the order of ids.
    """
    collection, rows = _rows(kb, status)
    names = _names(kb)
    search = [{"$match": {"document_name": containing(name_search)}}] if name_search else []
    later = [] if after is None else [{"$match": {"document_id": {"$gt": after}}}]
    order = _order(sort)
    page: list[AggregationStage] = [*later, {"$sort": order}, {"$skip": skip}, {"$limit": limit}]
    # Names of documents that are not indexed come from the projection: for the page only, unless they decide.
    names_decide = bool(name_search) or "document_name" in order
    page = page if names_decide else [*page, *names]
    before = [*names, *search] if names_decide else []
    answer = await database[collection].aggregate(
        [*rows, *before, {"$facet": {"page": page, "total": [{"$count": "count"}]}}]
    )
    found = (await answer.to_list())[0]
    total = found["total"][0]["count"] if found["total"] else 0
    return [_listed(row, with_jobs=status is not None) for row in found["page"]], total


def _order(sort: ListedDocumentSort) -> dict[str, int]:
    return {sort.removeprefix("-"): DESCENDING if sort.startswith("-") else ASCENDING} | (
        {} if sort.endswith("document_id") else {"document_id": ASCENDING}
    )


async def find_document(database: Database, kb: KnowledgeBase, document_id: str) -> ListedDocument | None:
    """Return one document as `all` lists it; None if it is not indexed and has no job."""
    collection, rows = _rows(kb, "all", document_id=document_id)
    found = await (await database[collection].aggregate([*rows, *_names(kb)])).to_list()
    return _listed(found[0], with_jobs=True) if found else None


def _rows(
    kb: KnowledgeBase, status: StatusFilter | None, *, document_id: str | None = None
) -> tuple[str, list[AggregationStage]]:
    """Return the collection to begin with, and the stages that yield one row for each document."""
    scope: Row = {"organization_id": kb.organization_id, "kb_id": kb.kb_id}
    if document_id is not None:
        scope["document_id"] = document_id
    if status is None:
        return document_index.NAME, _indexed(scope, {})
    if status in ("indexed", "empty"):
        count = {"$eq": 0} if status == "empty" else {"$gt": 0}
        return document_index.NAME, _indexed(scope, {"chunk_count": count})
    if status == "all":
        jobs = {"coll": index_jobs.NAME, "pipeline": [{"$match": scope}, {"$project": _JOB_FIELDS}]}
        return document_index.NAME, [*_indexed(scope, {}), {"$unionWith": jobs}, *_merge_by_document()]
    return index_jobs.NAME, [
        {"$match": {**scope, **condition_of_state(status)}},
        {"$project": _JOB_FIELDS},
        *_with_index_row(kb),
    ]


def _indexed(scope: Row, condition: Row) -> list[AggregationStage]:
    return [{"$match": {**scope, **condition}}, {"$project": _INDEX_FIELDS}]


def condition_of_state(status: StatusFilter) -> Row:
    """Return the condition for a state as `_JOB_FIELDS` computes it."""
    if status == "pending":
        return {"$or": [{"state": "pending"}, {"state": "running", "$expr": _LEASE_IS_OVER}]}
    if status == "running":
        return {"state": "running", "$expr": {"$not": [_LEASE_IS_OVER]}}
    return {"state": status}


def _merge_by_document() -> list[AggregationStage]:
    return [
        {"$group": {"_id": "$document_id", "row": {"$mergeObjects": "$$ROOT"}}},
        {"$replaceRoot": {"newRoot": "$row"}},
    ]


def _with_index_row(kb: KnowledgeBase) -> list[AggregationStage]:
    identity = {"$concat": [f"{kb.kb_id}/", "$document_id"]}
    return _join(document_index.NAME, identity, condition={"organization_id": kb.organization_id}, fields=_INDEX_FIELDS)


def _names(kb: KnowledgeBase) -> list[AggregationStage]:
    identity = {"$concat": [{"$literal": f"{kb.organization_id}/"}, "$document_id"]}
    fields = {"projected_name": "$document_name", "_id": 0}
    return [
        *_join(documents.NAME, identity, condition={"organization_id": kb.organization_id}, fields=fields),
        {"$set": {"document_name": {"$ifNull": ["$document_name", "$projected_name"]}}},
    ]


def _join(
    collection: str, identity: AggregationStage, *, condition: Row, fields: AggregationStage
) -> list[AggregationStage]:
    """Return the stages that add `fields` of the row of `collection` with the id `identity`, if there is one."""
    lookup = {
        "from": collection,
        "let": {"identity": identity},
        "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$identity"]}, **condition}}, {"$project": fields}],
        "as": "joined",
    }
    return [
        {"$lookup": lookup},
        {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"$first": "$joined"}]}}},
        {"$unset": "joined"},
    ]


def containing(text: str) -> AggregationStage:
    return {"$regex": re.escape(text), "$options": "i"}


def _listed(row: Row, *, with_jobs: bool) -> ListedDocument:
    chunk_count = row.get("chunk_count", 0)
    state = row.get("state") if with_jobs else None
    return ListedDocument(
        document_id=row["document_id"],
        document_name=row.get("document_name"),
        status=state or ("indexed" if chunk_count else "empty"),
        chunk_count=chunk_count,
        embedding=EmbeddingProgress(**row["embedding"]) if with_jobs and row.get("embedding") else None,
        indexed_at=row.get("indexed_at"),
        attempts=row.get("attempts", 0),
        error_type=row.get("error_type"),
        error_message=row.get("error_message"),
        next_attempt_at=row.get("next_attempt_at"),
    )
