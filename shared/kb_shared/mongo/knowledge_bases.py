"""`knowledge_bases`: the configuration of KBs, and the state of their life cycle.

`creating -> building -> indexing -> active`; `error` and back from each; `deleting` from any. People see `indexing`
also while documents of an active KB have open jobs: that is computed when it is read (`with_shown_status`), because a
stored status would be one row that all documents write. The configuration of
chunks and vectors never changes. Tags do: each change raises `tags_version`, which is also in the KB slots.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_shared.errors import NotFound
from kb_shared.identifiers import is_kb_id
from kb_shared.mongo import index_jobs, kb_slots
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.rows import RowMapper, match_version
from kb_shared.text import spellings
from kb_shared.text.text_normalization import AS_WRITTEN, SPELLED

NAME = "knowledge_bases"
WORK: Final[Sequence[Row]] = (
    {"operationType": {"$in": ["insert", "replace"]}},
    {"updateDescription.updatedFields.status": {"$exists": True}},
    {"updateDescription.updatedFields.filters_building": {"$exists": True}},
    {"updateDescription.updatedFields.index_rebuild": {"$exists": True}},
)
"""Changes after which a KB may have a next step in its life cycle."""
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("tag_ids", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("created_at", ASCENDING)]),
    IndexModel([("status", ASCENDING)]),
    IndexModel([("filters_building", ASCENDING)], sparse=True),
    IndexModel([("index_rebuild", ASCENDING)], sparse=True),
]


Sort = Literal[
    "created_at",
    "-created_at",
    "name",
    "-name",
    "updated_at",
    "-updated_at",
    "status",
    "-status",
    "document_count",
    "-document_count",
    "chunk_count",
    "-chunk_count",
    "last_searched_at",
    "-last_searched_at",
]
"""Field to sort by; descending with a minus."""
_IS_OTHER: Final = "is_other"
_SHOWN_STATUS: Final = "shown_status"
_COUNTS: Final = frozenset({"document_count", "chunk_count"})
"""Fields that are sums over the KB slots."""


_FIRST_RETRY_MS: Final = 5 * 60_000
_LAST_RETRY_MS: Final = 24 * 3_600_000


class Status(StrEnum):
    CREATING = "creating"
    BUILDING = "building"
    INDEXING = "indexing"
    ACTIVE = "active"
    ERROR = "error"
    DELETING = "deleting"


class KnowledgeBaseKind(StrEnum):
    DOCUMENTS = "documents"
    KNOWLEDGE = "knowledge"
    """Kind of the one KB of an organization that contains its entries."""


UNKNOWN_DIMENSIONS: Final = 0
"""Value of `embedding_dimensions` until the model has been asked, which the life cycle does."""


class IndexRebuild(StrEnum):
    """Stage of a rebuild of the search indexes that somebody has requested."""

    REQUESTED = "requested"
    BUILDING = "building"
    """Stage in which nothing that failed is dropped any more: the new indexes are being built, or have failed."""


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    kb_id: str
    organization_id: str
    name: str
    description: str
    tag_ids: tuple[str, ...]
    tags_version: int
    chunker_type: str
    chunk_size: int
    chunk_overlap: int
    """Number of tokens, as is `chunk_size`."""
    embedding_model: str
    embedding_dimensions: int
    max_chunks_per_document: int
    status: Status
    status_reason: str | None
    vector_collection: str
    created_at: datetime
    updated_at: datetime
    created_by: str
    updated_by: str
    coalesce_neighbors: int = 0
    min_score: float | None = None
    text_analyzer: str = "lucene.standard"
    text_normalization: int = AS_WRITTEN
    """Normalization of texts for the model and the text index; a row from before this field counts as 1."""
    filterable_metadata: tuple[str, ...] = ()
    filters_building: tuple[str, ...] = ()
    """Keys of `filterable_metadata` that the search indexes do not have yet."""
    index_rebuild: IndexRebuild | None = None
    """Stage of the rebuild of the search indexes; None if none is going on."""
    index_builds: int = 0
    """Number of rebuilds that were requested so far. The definitions of the search indexes contain it."""
    rate_limits: Mapping[str, int] = field(default_factory=dict)
    refuse_sensitive: bool = False
    """True if documents whose texts contain a credential are not indexed."""
    warnings: tuple[str, ...] = ()
    """Warnings about the settings that the KB was created with."""
    text_language: str | None = None
    """ISO 639-1 code of the language of most of its texts, as it was detected last; None if it is not known."""
    last_searched_at: datetime | None = None
    paused_at: datetime | None = None
    """Time of the pause. A paused KB indexes nothing; removals and searches continue."""

    vector_fingerprint: str | None = None
    """Fingerprint of the provider, address and model that the first vector came from; None if it is not known."""
    vector_sample: tuple[float, ...] = ()
    """First numbers of that vector, by which its model is recognized at another address."""

    version: int = 0
    """Number of changes of the fields that people set."""
    kind: KnowledgeBaseKind = KnowledgeBaseKind.DOCUMENTS

    @property
    def key(self) -> KnowledgeBaseKey:
        return KnowledgeBaseKey(self.organization_id, self.kb_id)

    @property
    def config_hash(self) -> str:
        """Compute the hash of all settings that determine the chunks and vectors of a text."""
        parts = (
            self.chunker_type,
            self.chunk_size,
            self.chunk_overlap,
            self.embedding_model,
            self.embedding_dimensions,
            # A row without this field keeps its hash. Another hash would cause all its documents to be indexed again.
            *(() if self.text_normalization == AS_WRITTEN else (self.text_normalization,)),
            # An indexer that does not know these terms has another hash: what it indexes is indexed again.
            *((spellings.VERSION,) if self.text_normalization == SPELLED else ()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


ROWS: Final = RowMapper(
    KnowledgeBase,
    names={"kb_id": "_id"},
    convert={"status": Status, "index_rebuild": IndexRebuild, "kind": KnowledgeBaseKind}
    | dict.fromkeys(("tag_ids", "filterable_metadata", "filters_building", "warnings", "vector_sample"), tuple),
    # All rows have these fields, but a row without them is readable, too.
    defaults={"tag_ids": (), "status_reason": None},
)


def build_collection_name(kb_id: str) -> str:
    return f"kb_vectors_{kb_id}"


async def insert(database: Database, session: MongoSession, kb: KnowledgeBase) -> None:
    await database[NAME].insert_one(_to_row(kb), session=session)


async def find(
    database: Database, key: KnowledgeBaseKey, *, session: MongoSession | None = None
) -> KnowledgeBase | None:
    row = await database[NAME].find_one(_filter(key), session=session)
    return ROWS.read(row) if row else None


async def find_by_ids(database: Database, organization_id: str, kb_ids: Collection[str]) -> dict[str, KnowledgeBase]:
    rows = database[NAME].find({"_id": {"$in": list(kb_ids)}, "organization_id": organization_id})
    return {row["_id"]: ROWS.read(row) async for row in rows}


async def count_by_tag(
    database: Database, organization_id: str, *, tag_ids: Collection[str], session: MongoSession | None = None
) -> dict[str, int]:
    """Count the KBs that have each of `tag_ids`, without those that are being deleted; a tag of none is absent."""
    mine = {"organization_id": organization_id, "tag_ids": {"$in": list(tag_ids)}, "status": {"$ne": Status.DELETING}}
    stages: list[Row] = [
        {"$match": mine},
        {"$unwind": "$tag_ids"},
        {"$group": {"_id": "$tag_ids", "kbs": {"$sum": 1}}},
    ]
    rows = await database[NAME].aggregate(stages, session=session)
    return {row["_id"]: row["kbs"] async for row in rows if row["_id"] in tag_ids}


async def find_names(database: Database, organization_id: str, *, kb_ids: Collection[str]) -> dict[str, str]:
    """Return the names of those of the `kb_ids` that exist."""
    rows = database[NAME].find({"_id": {"$in": list(kb_ids)}, "organization_id": organization_id}, {"name": 1})
    return {row["_id"]: row["name"] async for row in rows}


def build_union_stage(organization_id: str, *, kb_ids: Collection[str]) -> Row:
    """Build the stage of a query on another collection that adds a `knowledge_base` for each KB that exists."""
    theirs = {"_id": {"$in": list(kb_ids)}, "organization_id": organization_id}
    pipeline = [
        {"$match": theirs},
        *_build_shown_status_stages(organization_id),
        {"$project": {"_id": 0, "knowledge_base": "$$ROOT"}},
    ]
    return {"$unionWith": {"coll": NAME, "pipeline": pipeline}}


def read_union_row(row: Row) -> tuple[KnowledgeBase, Status]:
    """Read a `knowledge_base` of `build_union_stage`: the KB, and the status that people see."""
    return ROWS.read(row), Status(row[_SHOWN_STATUS])


async def with_shown_status(
    database: Database, organization_id: str, kbs: Sequence[KnowledgeBase]
) -> list[KnowledgeBase]:
    """Return the KBs with the status that people see: an active one with open work is `indexing`."""
    active = [kb.kb_id for kb in kbs if kb.status is Status.ACTIVE]
    if not active:
        return [*kbs]
    rows = await database[NAME].aggregate(
        [
            {"$match": {"_id": {"$in": active}, "organization_id": organization_id}},
            *_build_shown_status_stages(organization_id),
            {"$match": {_SHOWN_STATUS: Status.INDEXING}},
            {"$project": {"_id": 1}},
        ]
    )
    at_work = {row["_id"] async for row in rows}
    return [replace(kb, status=Status.INDEXING) if kb.kb_id in at_work else kb for kb in kbs]


def _build_shown_status_stages(organization_id: str) -> list[Row]:
    """Build the stages that add the status that people see, for one look-up in an index, however many jobs there are.

    While a backfill runs, the stored status is `indexing`.
    """
    is_at_work = {"$and": [{"$eq": ["$status", Status.ACTIVE]}, {"$ne": [f"${index_jobs.NAME}", []]}]}
    return [
        index_jobs.build_first_open_stage(organization_id),
        {"$set": {_SHOWN_STATUS: {"$cond": [is_at_work, Status.INDEXING, "$status"]}}},
        {"$unset": index_jobs.NAME},
    ]


async def get(database: Database, key: KnowledgeBaseKey, *, session: MongoSession | None = None) -> KnowledgeBase:
    """Return a KB. Raises NotFound also for a malformed id, another organization's KB, and one being deleted."""
    return require(await find(database, key, session=session) if is_kb_id(key.kb_id) else None)


def require(kb: KnowledgeBase | None) -> KnowledgeBase:
    """Return `kb`. Raises NotFound if it is None or being deleted."""
    if kb is None or kb.status is Status.DELETING:
        raise NotFound("knowledge base")
    return kb


async def find_key(database: Database, kb_id: str) -> KnowledgeBaseKey | None:
    """Return the key of a KB of any organization, for an operator; None if there is no such KB."""
    row = await database[NAME].find_one({"_id": kb_id}, {"organization_id": 1})
    return KnowledgeBaseKey(row["organization_id"], kb_id) if row else None


async def find_of_organization(
    database: Database, organization_id: str, *, session: MongoSession | None = None
) -> list[KnowledgeBase]:
    """Return all KBs of an organization that are not being deleted."""
    query = {"organization_id": organization_id, "status": {"$ne": Status.DELETING}}
    rows = database[NAME].find(query, session=session)
    return [ROWS.read(row) async for row in rows]


async def find_knowledge(
    database: Database, organization_id: str, *, session: MongoSession | None = None
) -> KnowledgeBase | None:
    """Return the KB of an organization that contains its entries."""
    query = {
        "organization_id": organization_id,
        "kind": KnowledgeBaseKind.KNOWLEDGE,
        "status": {"$ne": Status.DELETING},
    }
    row = await database[NAME].find_one(query, session=session)
    return ROWS.read(row) if row else None


async def find_page(
    database: Database,
    organization_id: str,
    *,
    skip: int,
    limit: int,
    sort: Sort,
    status: Status | None = None,
    name_search: str | None = None,
    tag_id: str | None = None,
    kb_ids: Collection[str] | None = None,
) -> tuple[list[KnowledgeBase], int]:
    """Return a page of the KBs of an organization that are not being deleted, and their total number.

    The KB of its entries is the first one, however the others are sorted.

    Args:
        kb_ids: ids among which to look; None: all.
        status: only those that people see with this status.
        name_search: literal part of the name, case-insensitive.
        tag_id: only those with this tag.
    """
    query: Row = {"organization_id": organization_id, "status": {"$ne": Status.DELETING}}
    if tag_id is not None:
        query["tag_ids"] = tag_id
    if kb_ids is not None:
        query["_id"] = {"$in": list(kb_ids)}
    if name_search is not None:
        query["name"] = {"$regex": re.escape(name_search), "$options": "i"}
    field_name = _SHOWN_STATUS if sort.endswith("status") else sort.removeprefix("-")
    order = {_IS_OTHER: ASCENDING, field_name: DESCENDING if sort.startswith("-") else ASCENDING, "_id": ASCENDING}
    # Rows of older versions have no kind.
    is_other = {"$set": {_IS_OTHER: {"$ne": ["$kind", KnowledgeBaseKind.KNOWLEDGE]}}}
    counted = kb_slots.build_count_stages() if field_name in _COUNTS else []
    looks_at_work = status in (Status.ACTIVE, Status.INDEXING) or (status is None and field_name == _SHOWN_STATUS)
    if looks_at_work and status is not None:
        query["status"] = {"$in": [Status.ACTIVE, Status.INDEXING]}
    elif status is not None:
        query["status"] = status
    shown = _build_shown_status_stages(organization_id) if looks_at_work else []
    found: list[Row] = [{"$match": query}, *shown, *([{"$match": {_SHOWN_STATUS: status}}] if shown and status else [])]
    rows = await database[NAME].aggregate(
        [*found, *counted, is_other, {"$sort": order}, {"$skip": skip}, {"$limit": limit}]
    )
    totals = await (await database[NAME].aggregate([*found, {"$count": "kbs"}])).to_list()
    return [ROWS.read(row) async for row in rows], totals[0]["kbs"] if totals else 0


async def count(database: Database, organization_id: str, session: MongoSession | None = None) -> int:
    """Count the KBs of an organization that are not being deleted, without that of its entries."""
    others = {
        "organization_id": organization_id,
        "status": {"$ne": Status.DELETING},
        "kind": {"$ne": KnowledgeBaseKind.KNOWLEDGE},
    }
    return await database[NAME].count_documents(others, session=session)


async def is_any_left(database: Database, organization_id: str) -> bool:
    """Return whether an organization has KBs, also such that are being deleted."""
    return await database[NAME].find_one({"organization_id": organization_id}, {"_id": 1}) is not None


async def find_in_transition(database: Database) -> list[KnowledgeBase]:
    """Return the KBs of all organizations whose life cycle has a next step now."""
    rows = database[NAME].find(
        {
            "$or": [
                {"status": {"$in": [Status.BUILDING, Status.INDEXING, Status.DELETING]}},
                {"status": Status.CREATING, "embedding_dimensions": {"$ne": UNKNOWN_DIMENSIONS}},
                {"status": Status.CREATING, "$expr": {"$lt": ["$look_again_at", "$$NOW"]}},
                # A KB that was not checked since has no time, which compares as less than any time.
                {"status": Status.ERROR, "$expr": {"$lt": ["$look_again_at", "$$NOW"]}},
                # With at least one key.
                {"status": Status.ACTIVE, "filters_building": {"$gt": ""}},
                {"status": Status.ACTIVE, "index_rebuild": {"$gt": ""}},
                {"status": Status.ERROR, "index_rebuild": IndexRebuild.REQUESTED},
            ]
        }
    )
    return [ROWS.read(row) async for row in rows]


async def find_long_in_transition(database: Database, *, age: timedelta) -> list[str]:
    """Return the ids of KBs, of all organizations, that have been created, built or deleted for longer than `age`."""
    old = {"$lt": ["$updated_at", {"$subtract": ["$$NOW", int(age.total_seconds() * 1000)]}]}
    states = [Status.CREATING, Status.BUILDING, Status.DELETING]
    rows = database[NAME].find({"status": {"$in": states}, "$expr": old}, {"_id": 1})
    return [row["_id"] async for row in rows]


async def postpone_check(database: Database, kb: KnowledgeBase, *, after: timedelta) -> None:
    """Exclude a KB in `error`, or without dimensions, from `find_in_transition` until `after` has passed."""
    await database[NAME].update_one(
        {"_id": kb.kb_id, "organization_id": kb.organization_id},
        [{"$set": {"look_again_at": {"$add": ["$$NOW", int(after.total_seconds() * 1000)]}}}],
    )


async def find_failed_to_retry(database: Database) -> list[KnowledgeBaseKey]:
    """Return the KBs of all organizations that are in `error` and whose next retry is due."""
    # A KB that was never retried has no time, which compares as less than any time.
    query = {"status": Status.ERROR, "$expr": {"$lt": ["$retry_at", "$$NOW"]}}
    rows = database[NAME].find(query, {"organization_id": 1})
    return [KnowledgeBaseKey(row["organization_id"], row["_id"]) async for row in rows]


async def note_retry(database: Database, key: KnowledgeBaseKey) -> None:
    """Postpone the next retry of a KB in `error`: by 5 minutes, then by twice as long each time, up to a day."""
    pause = {"$min": [{"$multiply": [_FIRST_RETRY_MS, {"$pow": [2, "$retries"]}]}, _LAST_RETRY_MS]}
    await database[NAME].update_one(
        _filter(key),
        [
            {"$set": {"retries": {"$ifNull": ["$retries", 0]}}},
            {"$set": {"retry_at": {"$add": ["$$NOW", pause]}, "retries": {"$add": ["$retries", 1]}}},
        ],
    )


async def find_active(database: Database) -> list[KnowledgeBase]:
    """Return the active KBs of all organizations."""
    rows = database[NAME].find({"status": Status.ACTIVE})
    return [ROWS.read(row) async for row in rows]


async def find_existing(database: Database) -> list[KnowledgeBase]:
    """Return the KBs of all organizations that are not being deleted."""
    rows = database[NAME].find({"status": {"$ne": Status.DELETING}})
    return [ROWS.read(row) async for row in rows]


async def find_existing_ids(database: Database, kb_ids: Collection[str]) -> set[str]:
    """Return the `kb_ids`, of any organization, that exist."""
    return set(await database[NAME].distinct("_id", {"_id": {"$in": list(kb_ids)}}))


async def find_organizations(database: Database, organization_ids: Collection[str]) -> set[str]:
    """Return those of the organizations that have a KB."""
    named = {"organization_id": {"$in": list(organization_ids)}}
    return set(await database[NAME].distinct("organization_id", named))


async def set_status(
    database: Database,
    kb: KnowledgeBase,
    status: Status,
    *,
    only_from: Status,
    reason: str | None = None,
    session: MongoSession | None = None,
) -> bool:
    """Take one step of the life cycle; False if the KB has left `only_from` meanwhile."""
    written = await database[NAME].update_one(
        {"_id": kb.kb_id, "organization_id": kb.organization_id, "status": only_from},
        {"$set": {"status": status, "status_reason": reason, "updated_at": datetime.now(UTC)}},
        session=session,
    )
    return written.matched_count == 1


async def change(
    database: Database,
    session: MongoSession,
    kb: KnowledgeBase,
    *,
    fields: Mapping[str, Any],
    raise_tags_version: bool = False,
    versions: Collection[int] | None = None,
) -> KnowledgeBase | None:
    """Write `fields` unless the KB is being deleted or its tags changed since `kb` was read; None if so.

    Args:
        versions: versions that may be overwritten; None: any.
    """
    update: Row = {"$set": {**fields, "updated_at": datetime.now(UTC)}}
    is_of_life_cycle = fields.keys() <= {"status"}
    raised = [*(["tags_version"] if raise_tags_version else []), *([] if is_of_life_cycle else ["version"])]
    if raised:
        update["$inc"] = dict.fromkeys(raised, 1)
    row = await database[NAME].find_one_and_update(
        {
            "_id": kb.kb_id,
            "organization_id": kb.organization_id,
            "tags_version": kb.tags_version,
            "status": {"$ne": Status.DELETING},
            **match_version(versions),
        },
        update,
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return ROWS.read(row) if row else None


async def request_index_rebuild(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> bool:
    """Note that the search indexes are to be built again; False if they are being built already."""
    can_begin = [
        {"status": {"$in": [Status.INDEXING, Status.ACTIVE]}, "index_rebuild": None},
        {"status": Status.ERROR, "index_rebuild": {"$ne": IndexRebuild.REQUESTED}},
    ]
    written = await database[NAME].update_one(
        {**_filter(key), "$or": can_begin},
        {"$set": {"index_rebuild": IndexRebuild.REQUESTED}, "$inc": {"index_builds": 1}},
        session=session,
    )
    return written.matched_count == 1


async def begin_index_rebuild(database: Database, kb: KnowledgeBase) -> bool:
    """Note that the requested rebuild has dropped what had failed; False if there is no such request."""
    written = await database[NAME].update_one(
        {**_filter(kb.key), "index_rebuild": IndexRebuild.REQUESTED},
        {"$set": {"index_rebuild": IndexRebuild.BUILDING}},
    )
    return written.matched_count == 1


async def set_vectors(
    database: Database, kb: KnowledgeBase, *, dimensions: int, fingerprint: str, sample: Sequence[float]
) -> bool:
    """Store what the vectors of a KB are like; False if that is known already, or it is being deleted."""
    found = {"embedding_dimensions": dimensions, "vector_fingerprint": fingerprint, "vector_sample": list(sample)}
    written = await database[NAME].update_one(
        {**_filter(kb.key), "status": Status.CREATING, "embedding_dimensions": UNKNOWN_DIMENSIONS},
        {"$set": {**found, "status_reason": None, "updated_at": datetime.now(UTC)}},
    )
    return written.matched_count == 1


async def set_indexes_built(database: Database, kb: KnowledgeBase) -> bool:
    """Note that the search indexes are as `kb` needs them; False if it needs others meanwhile."""
    written = await database[NAME].update_one(
        {
            **_filter(kb.key),
            "filterable_metadata": list(kb.filterable_metadata),
            # A row from before this field has had no rebuild.
            "index_builds": kb.index_builds or {"$in": [0, None]},
        },
        {"$set": {"filters_building": [], "index_rebuild": None}},
    )
    return written.matched_count == 1


async def find_writes_at_detection(database: Database) -> dict[KnowledgeBaseKey, int]:
    """Return the KBs of all organizations with the number of writes of their slots when their language was detected."""
    rows = database[NAME].find({"status": {"$ne": Status.DELETING}}, {"organization_id": 1, "text_language_writes": 1})
    return {
        KnowledgeBaseKey(row["organization_id"], row["_id"]): row.get("text_language_writes", 0) async for row in rows
    }


async def set_text_language(database: Database, key: KnowledgeBaseKey, language: str | None, *, writes: int) -> None:
    """Note the language of the texts, as it was detected when the slots of the KB had had `writes` writes."""
    await database[NAME].update_one(_filter(key), {"$set": {"text_language": language, "text_language_writes": writes}})


async def mark_deleting(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> bool:
    written = await database[NAME].update_one(
        _filter(key),
        {"$set": {"status": Status.DELETING, "updated_at": datetime.now(UTC)}},
        session=session,
    )
    return written.matched_count == 1


async def note_search(database: Database, key: KnowledgeBaseKey, *, at: datetime) -> None:
    await database[NAME].update_one(_filter(key), {"$max": {"last_searched_at": at}})


async def delete(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_one(_filter(key), session=session)


def _filter(key: KnowledgeBaseKey) -> Row:
    return {"_id": key.kb_id, "organization_id": key.organization_id}


_FIELDS: Final = tuple(each.name for each in fields(KnowledgeBase))


def _to_row(kb: KnowledgeBase) -> Row:
    return {ROWS.stored_name(name): getattr(kb, name) for name in _FIELDS}
