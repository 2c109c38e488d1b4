"""Lists the documents of an organization, with the KBs that each is in or has open work for.

The query begins with the collection that narrows most: open jobs, the indexed documents of a KB, or the documents.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING

from kb_api.documents_of_knowledge_base import AggregationStage, condition_of_state, containing
from kb_contracts.api.document_lists import DocumentListFilter, DocumentSort, DocumentStage
from kb_contracts.api.memberships import DocumentStatus, StatusFilter
from kb_shared.mongo import document_index, documents, index_jobs
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.rows import RowMapper

_CONDITIONS: Final[dict[DocumentListFilter, Row]] = {
    "available": {"alive": True},
    "waiting_for_text": {"alive": False, "deleted_revision": None},
    "deleted": {"alive": False, "deleted_revision": {"$ne": None}},
}
"""Conditions for the states that the row of a document alone decides."""
_AFTER_ALL_IDS: Final = "\x7f"
"""Character that sorts after all characters of ids."""
_NOT_DELETED: Final[Row] = {"$or": [{"alive": True}, {"deleted_revision": None}]}
_CHUNK_COUNTS: Final[dict[DocumentListFilter, Row]] = {"indexed": {"$gt": 0}, "empty": {"$eq": 0}}
_JOB_STATES: Final[dict[DocumentListFilter, StatusFilter]] = {
    "pending": "pending",
    "running": "running",
    "failed": "failed",
    "paused": "paused",
}
_FIELDS: Final = dict.fromkeys(
    (
        "document_id",
        "document_name",
        "alive",
        "deleted_revision",
        "tag_ids",
        "upload_date",
        "content_type",
        "source_digest",
        "text_revision",
        "text_id",
        "changed_at",
    ),
    1,
)


@dataclass(frozen=True, slots=True)
class DocumentsWanted:
    """Conditions that all must hold; None and False: no condition."""

    status: DocumentListFilter | None = None
    """None: all but deleted documents."""
    tag_id: str | None = None
    id_prefix: str | None = None
    """Beginning of the ids of documents."""
    document_ids: tuple[str, ...] | None = None
    name_search: str | None = None
    """Literal part of the name; upper and lower case are equal."""
    kb_id: str | None = None
    """KB that contains the document; with a state of a job, KB of the job."""
    in_no_kb: bool = False


@dataclass(frozen=True, slots=True)
class OrganizationDocument:
    document_id: str
    alive: bool
    tag_ids: list[str]
    document_name: str | None = None
    deleted_revision: int | None = None
    upload_date: datetime | None = None
    content_type: str | None = None
    source_digest: str | None = None
    text_revision: int | None = None
    text_id: str | None = None
    changed_at: datetime | None = None

    @property
    def stage(self) -> DocumentStage:
        if self.alive:
            return "available"
        return "waiting_for_text" if self.deleted_revision is None else "deleted"


_ROWS: Final = RowMapper(OrganizationDocument)


async def list_page(
    database: Database,
    organization_id: str,
    wanted: DocumentsWanted,
    *,
    sort: DocumentSort,
    after: str | None = None,
    skip: int,
    limit: int,
) -> tuple[list[OrganizationDocument], int]:
    """Return one page of documents, after a position that `position_of` returned, and the number of all."""
    collection, stages = _stages(organization_id, wanted)
    direction = DESCENDING if sort.startswith("-") else ASCENDING
    field = sort.removeprefix("-")
    # The order of the ids of rows is that of the documents, and has an index.
    order = {"_id": direction} if field == "document_id" else {field: direction, "_id": direction}
    later = [] if after is None else [{"$match": _condition_after(after, organization_id, sort=sort)}]
    paging: list[AggregationStage] = [
        *later,
        {"$sort": order},
        {"$skip": skip},
        {"$limit": limit},
        {"$project": _FIELDS},
    ]
    rows = await (await database[collection].aggregate([*stages, *paging], allowDiskUse=True)).to_list()
    counted = await (await database[collection].aggregate([*stages, {"$count": "count"}])).to_list()
    return [_ROWS.read(row) for row in rows], counted[0]["count"] if counted else 0


def position_of(document: OrganizationDocument, *, sort: DocumentSort) -> str:
    """Return the position of a document in a list with this order, for `after`."""
    value = getattr(document, sort.removeprefix("-"))
    return json.dumps([value.isoformat() if isinstance(value, datetime) else value, document.document_id])


def _condition_after(position: str, organization_id: str, *, sort: DocumentSort) -> Row:
    value, document_id = json.loads(position)
    row_id = f"{organization_id}/{document_id}"
    field = sort.removeprefix("-")
    is_later = "$lt" if sort.startswith("-") else "$gt"
    if field == "document_id":
        return {"_id": {is_later: row_id}}
    if field == "upload_date" and value is not None:
        value = datetime.fromisoformat(value)
    # Only an expression compares with documents that have no such field: these come before all others.
    stored = {"$ifNull": [f"${field}", None]}
    is_equal = {"$and": [{"$eq": [stored, {"$literal": value}]}, {is_later: ["$_id", {"$literal": row_id}]}]}
    return {"$expr": {"$or": [{is_later: [stored, {"$literal": value}]}, is_equal]}}


async def find_placements(
    database: Database, organization_id: str, *, document_ids: Sequence[str]
) -> dict[str, dict[str, DocumentStatus]]:
    """Return the state of documents by KB, by document; a document in no KB is absent. Open work decides."""
    found: dict[str, dict[str, DocumentStatus]] = {}
    for document_id, rows in (await document_index.find_of_documents(database, organization_id, document_ids)).items():
        found[document_id] = {row.kb_id: "indexed" if row.chunk_count else "empty" for row in rows}
    for document_id, states in (await index_jobs.find_states(database, organization_id, document_ids)).items():
        found.setdefault(document_id, {}).update({kb_id: state.value for kb_id, state in states.items()})
    return found


def _stages(organization_id: str, wanted: DocumentsWanted) -> tuple[str, list[AggregationStage]]:
    """Return the collection to begin with, and the stages that yield the rows of documents."""
    of_document: Row = _NOT_DELETED if wanted.status is None else _CONDITIONS.get(wanted.status, {})
    if wanted.tag_id is not None:
        of_document = {**of_document, "tag_ids": wanted.tag_id}
    if wanted.name_search is not None:
        of_document = {**of_document, "document_name": containing(wanted.name_search)}
    outside = _outside_of_kbs(organization_id) if wanted.in_no_kb else []
    other = _collection_that_narrows(wanted)
    if other is None:
        # Ids of rows begin with the organization, so this is a range of the index of ids, in the order of documents.
        ids = _condition_of_ids(wanted, prefix=f"{organization_id}/")
        return documents.NAME, [{"$match": {"organization_id": organization_id, "_id": ids, **of_document}}, *outside]
    collection, condition = other
    if wanted.id_prefix is not None or wanted.document_ids is not None:
        condition = {**condition, "document_id": _condition_of_ids(wanted, prefix="")}
    joined = {
        "from": documents.NAME,
        "let": {"identity": {"$concat": [{"$literal": f"{organization_id}/"}, "$_id"]}},
        "pipeline": [
            {
                "$match": {
                    "$expr": {"$eq": ["$_id", "$$identity"]},
                    "organization_id": organization_id,
                    **of_document,
                }
            }
        ],
        "as": "document",
    }
    return collection, [
        {"$match": {"organization_id": organization_id, **condition}},
        {"$group": {"_id": "$document_id"}},
        {"$lookup": joined},
        {"$unwind": "$document"},
        {"$replaceRoot": {"newRoot": "$document"}},
        *outside,
    ]


def _condition_of_ids(wanted: DocumentsWanted, *, prefix: str) -> Row:
    """Return the condition of a field with ids of documents behind a prefix."""
    condition = _beginning(f"{prefix}{wanted.id_prefix or ''}")
    if wanted.document_ids is not None:
        condition["$in"] = [prefix + document_id for document_id in wanted.document_ids]
    return condition


def _beginning(prefix: str) -> Row:
    """Return the condition that an id begins with `prefix`, as a range of its index."""
    return {"$gte": prefix, "$lt": prefix + _AFTER_ALL_IDS}


def _collection_that_narrows(wanted: DocumentsWanted) -> tuple[str, Row] | None:
    """Return the collection whose rows say which documents are wanted, and their condition."""
    in_kb = {} if wanted.kb_id is None else {"kb_id": wanted.kb_id}
    if wanted.status in _JOB_STATES:
        return index_jobs.NAME, {**in_kb, **condition_of_state(_JOB_STATES[wanted.status])}
    if wanted.status in _CHUNK_COUNTS:
        return document_index.NAME, {**in_kb, "chunk_count": _CHUNK_COUNTS[wanted.status]}
    return (document_index.NAME, in_kb) if in_kb else None


def _outside_of_kbs(organization_id: str) -> list[AggregationStage]:
    """Return the stages that leave out documents that a KB contains."""
    indexed = {
        "from": document_index.NAME,
        "localField": "document_id",
        "foreignField": "document_id",
        "pipeline": [{"$match": {"organization_id": organization_id}}, {"$limit": 1}, {"$project": {"_id": 1}}],
        "as": "indexed",
    }
    return [{"$lookup": indexed}, {"$match": {"indexed": []}}, {"$unset": "indexed"}]
