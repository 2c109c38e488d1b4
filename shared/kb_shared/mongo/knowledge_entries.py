"""`knowledge_entries`: texts that people write, import or have fetched; `knowledge_entry_tombstones`: of deleted ones.

An entry is a document of the id `entry-{entry_id}`. Each change gives it a greater revision, which is that of the event
about this document. A tombstone keeps the last revision of a deleted entry for a day, so that an entry that is made
under its id again gets a greater one.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_contracts.reserved_ids import document_id_of
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_time import now
from kb_shared.mongo.time_position import TimePosition

NAME = "knowledge_entries"
TOMBSTONES = "knowledge_entry_tombstones"
KEPT_TOMBSTONE: Final = timedelta(days=1)
_OF_DELETED_SOURCE: Final = {"source_id": None, "source_kind": {"$type": "string"}}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("created_at", DESCENDING), ("_id", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("source_id", ASCENDING), ("source_key", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("entity_id", ASCENDING)]),
    IndexModel([("updated_at", ASCENDING)], partialFilterExpression={"embedding_status": "pending"}),
    IndexModel([("source_kind", ASCENDING)], partialFilterExpression=_OF_DELETED_SOURCE),
]
TOMBSTONE_INDEXES = [IndexModel([("deleted_at", ASCENDING)], expireAfterSeconds=int(KEPT_TOMBSTONE.total_seconds()))]
EXCERPT_CHARACTERS: Final = 300
MAX_SOURCE_TYPES: Final = 100
_MAX_AUTHORS: Final = 50

EntryStatus: TypeAlias = Literal["pending", "ready", "error"]


@dataclass(frozen=True, slots=True)
class EntryKey:
    """Identifies an entry."""

    organization_id: str
    entry_id: str

    @property
    def document(self) -> DocumentKey:
        return DocumentKey(self.organization_id, document_id_of(self.entry_id))


@dataclass(frozen=True, slots=True)
class EmbeddingError:
    """Why an entry is not searchable as it is now."""

    type: str
    message: str
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    organization_id: str
    entry_id: str
    title: str
    content: str
    tags: tuple[str, ...]
    type: str
    revision: int
    content_hash: str
    """SHA-256 of `content`, and of `embedding_text` if there is one."""
    created_at: datetime
    updated_at: datetime
    created_by: str
    updated_by: str
    knowledge_type: str | None = None
    """Kind of knowledge of a piece; None: the entry is no piece."""
    info_type: str | None = None
    entity_id: str | None = None
    embedding_status: EntryStatus = "pending"
    embedding_error: EmbeddingError | None = None
    source_id: str | None = None
    source_kind: str | None = None
    source_url: str | None = None
    source_key: str | None = None
    embedding_text: str | None = None
    """Text that is embedded in place of `content`; None: `content` is."""
    authors: tuple[str, ...] | None = None
    """Keys that wrote the present content, or changed anything of the entry since; None: a source wrote it."""

    @property
    def key(self) -> EntryKey:
        return EntryKey(self.organization_id, self.entry_id)

    @property
    def source_type(self) -> str:
        """Return the kind of the source if there is one, otherwise the type."""
        return self.source_kind or self.type


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """An entry in a list, with the beginning of its content."""

    entry_id: str
    title: str
    excerpt: str
    character_count: int
    tags: tuple[str, ...]
    type: str
    created_at: datetime
    updated_at: datetime
    source_type: str = ""
    knowledge_type: str | None = None
    info_type: str | None = None
    entity_id: str | None = None
    embedding_status: EntryStatus = "pending"
    embedding_error: EmbeddingError | None = None
    source_id: str | None = None
    source_url: str | None = None

    @property
    def position(self) -> TimePosition:
        return TimePosition(self.created_at, self.entry_id)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Conditions on entries; None: any."""

    q: str | None = None
    """Literal part of the title or the content, case-insensitive."""
    source_type: str | None = None
    embedding_status: EntryStatus | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    """Both inclusive."""
    tag: str | None = None
    info_type: str | None = None
    knowledge_type: str | None = None
    entity_id: str | None = None
    source_id: str | None = None

    def query(self, organization_id: str) -> Row:
        equal = {
            "source_type": self.source_type,
            "embedding_status": self.embedding_status,
            "tags": self.tag,
            "info_type": self.info_type,
            "knowledge_type": self.knowledge_type,
            "entity_id": self.entity_id,
            "source_id": self.source_id,
        }
        conditions: Row = {name: value for name, value in equal.items() if value is not None}
        created = {"$gte": self.created_from, "$lte": self.created_to}
        if bounds := {operator: value for operator, value in created.items() if value is not None}:
            conditions["created_at"] = bounds
        if self.q is not None:
            part = {"$regex": re.escape(self.q), "$options": "i"}
            conditions["$or"] = [{"title": part}, {"content": part}]
        return {"organization_id": organization_id, **conditions}


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """Numbers of entries that match a filter."""

    by_status: Mapping[EntryStatus, int]
    by_source_type: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.by_status.values())


@dataclass(frozen=True, slots=True)
class _Tombstone:
    revision: int


_ERRORS: Final = RowMapper(EmbeddingError)
_CONVERT: Final[Mapping[str, Any]] = {"tags": tuple, "authors": tuple, "embedding_error": _ERRORS.read}
_ENTRIES: Final = RowMapper(KnowledgeEntry, convert=_CONVERT)
_LISTED: Final = RowMapper(ListedEntry, convert=_CONVERT)
_TOMBSTONES: Final = RowMapper(_Tombstone)
_LISTED_FIELDS: Final[Row] = {
    **{each.name: 1 for each in fields(ListedEntry)},
    "excerpt": {"$substrCP": ["$content", 0, EXCERPT_CHARACTERS]},
    "character_count": {"$strLenCP": "$content"},
}


def hash_content(content: str, *, embedding_text: str | None = None) -> str:
    """Return the hash by which unchanged content is recognized."""
    # No text contains NUL, so no other texts have these bytes.
    both = content if embedding_text is None else f"{content}\x00{embedding_text}"
    return hashlib.sha256(both.encode()).hexdigest()


def revision_after(previous: int | None) -> int:
    """Return a revision that is greater than `previous`: the time in milliseconds, unless that is not."""
    present = int(datetime.now(UTC).timestamp() * 1000)
    return present if previous is None else max(previous + 1, present)


async def insert(database: Database, session: MongoSession, entry: KnowledgeEntry) -> KnowledgeEntry | None:
    """Store a new entry with its revision; None if there is one with its id."""
    key = entry.key
    if await database[NAME].find_one(_identity(key), {"_id": 1}, session=session) is not None:
        return None
    row = await database[TOMBSTONES].find_one(_identity(key), session=session)
    buried = None if row is None else _TOMBSTONES.read(row).revision
    authors = (entry.created_by,) if entry.source_id is None else None
    stored = replace(entry, revision=revision_after(buried), authors=authors)
    await database[NAME].insert_one(_to_row(stored), session=session)
    return stored


async def get(database: Database, key: EntryKey, *, session: MongoSession | None = None) -> KnowledgeEntry:
    """Return an entry. Raises NotFound."""
    entry = await find(database, key, session=session)
    if entry is None:
        raise NotFound("entry")
    return entry


async def find(database: Database, key: EntryKey, *, session: MongoSession | None = None) -> KnowledgeEntry | None:
    row = await database[NAME].find_one(_identity(key), session=session)
    return None if row is None else _ENTRIES.read(row)


async def find_by_ids(
    database: Database, organization_id: str, *, entry_ids: Collection[str]
) -> dict[str, KnowledgeEntry]:
    """Return those of the entries that exist, by their ids."""
    ids = [_row_id(EntryKey(organization_id, entry_id)) for entry_id in entry_ids]
    rows = database[NAME].find({"_id": {"$in": ids}, "organization_id": organization_id})
    return {row["entry_id"]: _ENTRIES.read(row) async for row in rows}


async def find_page(
    database: Database, organization_id: str, wanted: EntryFilter, *, after: TimePosition | None, limit: int
) -> list[ListedEntry]:
    """Return up to `limit` entries, newest first, after a position if it is given."""
    query = wanted.query(organization_id)
    if after is not None:
        later = after.build_condition("created_at", _row_id(EntryKey(organization_id, after.row_id)))
        query = {**query, "$and": [later]}
    rows = database[NAME].find(query, _LISTED_FIELDS)
    page = rows.sort([("created_at", DESCENDING), ("_id", ASCENDING)]).limit(limit)
    return [_LISTED.read(row) async for row in page]


async def count_matching(database: Database, organization_id: str, wanted: EntryFilter) -> EntryCounts:
    """Count the entries that match, by status, and by the most frequent source types."""
    stages: list[Row] = [
        {"$match": wanted.query(organization_id)},
        {
            "$facet": {
                "by_status": [{"$group": {"_id": "$embedding_status", "entries": {"$sum": 1}}}],
                "by_source_type": [
                    {"$group": {"_id": "$source_type", "entries": {"$sum": 1}}},
                    {"$sort": {"entries": DESCENDING, "_id": ASCENDING}},
                    {"$limit": MAX_SOURCE_TYPES},
                ],
            }
        },
    ]
    [found] = await (await database[NAME].aggregate(stages)).to_list()
    nothing: dict[EntryStatus, int] = {"pending": 0, "ready": 0, "error": 0}
    return EntryCounts(
        nothing | {row["_id"]: row["entries"] for row in found["by_status"]},
        {row["_id"]: row["entries"] for row in found["by_source_type"]},
    )


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def change(
    database: Database, session: MongoSession, entry: KnowledgeEntry, *, fields: Mapping[str, Any], by: str
) -> KnowledgeEntry:
    """Write `fields` with the next revision, to be embedded again.

    Args:
        entry: as it was read in this transaction, which begins again if another one has changed it since.
    """
    changed = replace(
        entry,
        **fields,
        revision=revision_after(entry.revision),
        updated_at=now(),
        updated_by=by,
        embedding_status="pending",
        embedding_error=None,
        authors=_authors_after(entry, fields, by=by),
    )
    if not fields.keys().isdisjoint({"content", "embedding_text"}):
        content_hash = hash_content(changed.content, embedding_text=changed.embedding_text)
        changed = replace(changed, content_hash=content_hash)
    await database[NAME].replace_one(_identity(entry.key), _to_row(changed), session=session)
    return changed


def _authors_after(entry: KnowledgeEntry, fields: Mapping[str, Any], *, by: str) -> tuple[str, ...] | None:
    if fields.get("source_id", entry.source_id) is not None:
        return None
    if "content" in fields:
        return (by,)
    if entry.authors is None or len(entry.authors) == _MAX_AUTHORS:
        return None
    return tuple(dict.fromkeys((*entry.authors, by)))


async def delete(database: Database, session: MongoSession, key: EntryKey) -> int:
    """Delete an entry, and return the revision of its deletion. Raises NotFound."""
    row = await database[NAME].find_one_and_delete(_identity(key), {"revision": 1}, session=session)
    if row is None:
        raise NotFound("entry")
    revision = revision_after(row["revision"])
    tombstone = {**_identity(key), "revision": revision, "deleted_at": datetime.now(UTC)}
    await database[TOMBSTONES].replace_one(_identity(key), tombstone, upsert=True, session=session)
    return revision


async def unlink_source(database: Database, session: MongoSession, organization_id: str, *, source_id: str) -> None:
    """Let the entries of a source belong to none.

    Each keeps the kind of its source until `change` removes it: searches find it by this kind until its event says so.
    """
    unlinked = {"source_id": None, "source_url": None, "source_key": None}
    query = {"organization_id": organization_id, "source_id": source_id}
    await database[NAME].update_many(query, {"$set": unlinked}, session=session)


async def find_of_deleted_sources(database: Database, *, limit: int) -> list[EntryKey]:
    """Return entries of all organizations that belong to no source and still have the kind of one."""
    rows = database[NAME].find(_OF_DELETED_SOURCE, {"organization_id": 1, "entry_id": 1}).limit(limit)
    return [EntryKey(row["organization_id"], row["entry_id"]) async for row in rows]


async def set_status(
    database: Database,
    key: EntryKey,
    status: EntryStatus,
    *,
    revision: int,
    error: EmbeddingError | None = None,
    only_from: EntryStatus | None = None,
) -> bool:
    """Store what became of a revision; False if the entry has another one by now, or was deleted."""
    condition = {} if only_from is None else {"embedding_status": only_from}
    written = await database[NAME].update_one(
        {**_identity(key), "revision": revision, **condition},
        {"$set": {"embedding_status": status, "embedding_error": None if error is None else _error_row(error)}},
    )
    return written.matched_count == 1


async def find_pending(database: Database, *, age: timedelta, limit: int) -> list[tuple[EntryKey, int]]:
    """Return entries of all organizations that are pending for longer than `age`, oldest first: keys and revisions."""
    query = {"embedding_status": "pending", "updated_at": {"$lt": datetime.now(UTC) - age}}
    rows = database[NAME].find(query, {"organization_id": 1, "entry_id": 1, "revision": 1})
    page = rows.sort("updated_at", ASCENDING).limit(limit)
    return [(EntryKey(row["organization_id"], row["entry_id"]), row["revision"]) async for row in page]


def _row_id(key: EntryKey) -> str:
    return f"{key.organization_id}/{key.entry_id}"


def _identity(key: EntryKey) -> Row:
    return {"_id": _row_id(key), "organization_id": key.organization_id}


def _to_row(entry: KnowledgeEntry) -> Row:
    row: Row = {each.name: getattr(entry, each.name) for each in fields(entry)}
    error = None if entry.embedding_error is None else _error_row(entry.embedding_error)
    return {**_identity(entry.key), **row, "source_type": entry.source_type, "embedding_error": error}


def _error_row(error: EmbeddingError) -> Row:
    return {each.name: getattr(error, each.name) for each in fields(error)}
