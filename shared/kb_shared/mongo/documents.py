"""`documents`: the projection of `document-events`, with the facets of each document but without its text.

For each facet the greatest (revision, digest) wins. `alive`, `text_revision`, `text_digest` and `tag_ids` are top-level
fields because the fences of swaps are conditions on them.
"""

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from pymongo import ASCENDING, IndexModel, InsertOne, ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError

from kb_contracts.metadata import MAX_WARNINGS, MetadataWarning
from kb_shared.mongo.database import Database, MongoSession, Row, collisions
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.majority import majority_reads, seen_by_later_reads
from kb_shared.mongo.rows import RowMapper
from kb_shared.text.metadata_pairs import metadata_pairs

NAME = "documents"
_SEQUENCE: Final = "fence"
"""Stored field with the sequence number of a document. Fences increment it, so the field has their name."""
_WRITE_ID: Final = "last_event_id"
"""Stored field with the id of the last write. Earlier versions wrote the id of the event, which is not unique: an event
may come twice, and the writes of two processes may end with it."""
EVENTS_REMEMBERED: Final = 5
_WITHOUT_EVENTS: Final = {"events": 0}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("tag_ids", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("changed_at", ASCENDING)]),
]


@dataclass(frozen=True, slots=True)
class TextFacet:
    """Location of the text of a revision, with what else came with it."""

    revision: int
    digest: str
    text_id: str
    name: str
    upload_date: datetime
    content_type: str | None = None
    source_digest: str | None = None
    """Digest that the sender gave the file of the text."""
    reading_warnings: tuple[str, ...] = ()
    """Sentences on what was left out or assumed when the text was read from its file."""
    length: int | None = None
    """Number of characters that are cut into chunks; None in rows from before this field."""


@dataclass(frozen=True, slots=True)
class TagsFacet:
    revision: int
    digest: str
    tag_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetadataFacet:
    revision: int
    digest: str
    values: Mapping[str, Any]
    warnings: tuple[MetadataWarning, ...] = ()
    """Parts of the metadata that the event had and that can't be stored."""


@dataclass(frozen=True, slots=True)
class AppliedEvent:
    """An event that changed a document."""

    event_id: str
    type: str
    revision: int
    traceparent: str
    applied_at: datetime
    occurred_at: datetime | None = None
    """Time that the event has; None in rows of older versions."""


_TEXTS: Final = RowMapper(
    TextFacet,
    names={
        "revision": "text_revision",
        "digest": "text_digest",
        "name": "document_name",
        "length": "text_length",
    },
    convert={"reading_warnings": tuple},
)
_TAGS: Final = RowMapper(
    TagsFacet, names={"revision": "tags_revision", "digest": "tags_digest"}, convert={"tag_ids": tuple}
)
_METADATA: Final = RowMapper(
    MetadataFacet,
    names={
        "revision": "metadata_revision",
        "digest": "metadata_digest",
        "values": "metadata",
        "warnings": "metadata_warnings",
    },
    convert={"warnings": lambda stored: tuple(map(MetadataWarning.model_validate, stored))},
)
_EVENTS: Final = RowMapper(AppliedEvent)


@dataclass(frozen=True, slots=True)
class Document:
    """The state of a document after some set of its events, whatever their order."""

    organization_id: str
    document_id: str
    deleted_revision: int | None = None
    text: TextFacet | None = None
    tags: TagsFacet | None = None
    metadata: MetadataFacet | None = None
    projection_version: int = 0
    """Version of the row this was read from; 0 if there is none yet."""

    @property
    def key(self) -> DocumentKey:
        return DocumentKey(self.organization_id, self.document_id)

    @property
    def alive(self) -> bool:
        return self.text is not None

    @property
    def tag_ids(self) -> tuple[str, ...]:
        return self.tags.tag_ids if self.tags else ()

    @property
    def metadata_values(self) -> Mapping[str, Any]:
        return self.metadata.values if self.metadata else {}

    @property
    def warnings(self) -> tuple[MetadataWarning, ...]:
        of_text = (
            [MetadataWarning(field="text", message=each) for each in self.text.reading_warnings] if self.text else []
        )
        return (*of_text, *(self.metadata.warnings if self.metadata else ()))[:MAX_WARNINGS]


def chunk_metadata_digest(document: Document) -> str:
    """Compute the digest of all document fields that each chunk carries, and of the warnings that are announced."""
    if document.text is None:
        raise ValueError("a document without text has no chunk metadata")
    parts = (
        document.text.name,
        document.text.upload_date.isoformat(),
        sorted(document.tag_ids),
        metadata_pairs(document.metadata_values),
        # Without them, the digest is that of earlier versions.
        *document.warnings,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def row_id(key: DocumentKey) -> str:
    return f"{key.organization_id}/{key.document_id}"


async def find(database: Database, key: DocumentKey, *, session: MongoSession | None = None) -> Document | None:
    row = await database[NAME].find_one(
        _filter(key),
        _WITHOUT_EVENTS,
        session=session,
    )
    return _from_row(row) if row else None


async def find_last_events(database: Database, key: DocumentKey) -> list[AppliedEvent]:
    """Return the last events that changed the document, newest first. Events that came too late are not recorded."""
    row = await database[NAME].find_one(_filter(key), {"events": 1})
    events = [_EVENTS.read(event) for event in (row or {}).get("events", [])]
    return events[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class DocumentChange:
    """Document after events; `projection_version` is the version of the row that was read."""

    document: Document
    event: AppliedEvent
    """The last of the events."""
    earlier: Sequence[AppliedEvent] = ()
    write_id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def row_id(self) -> str:
        return row_id(self.document.key)

    @property
    def version(self) -> int:
        return self.document.projection_version + 1


async def write_all(database: Database, changes: Sequence[DocumentChange]) -> set[DocumentChange]:
    """Store changes of different documents; return those whose row was unchanged since it was read."""
    try:
        async with seen_by_later_reads(database):
            written = await database[NAME].bulk_write([_write_of(change) for change in changes], ordered=False)
    except BulkWriteError as error:
        collisions(error)
    else:
        if written.inserted_count + written.matched_count == len(changes):
            return set(changes)
    return await _written_among(database, changes)


def _write_of(change: DocumentChange) -> InsertOne[Row] | UpdateOne:
    document = change.document
    key = {
        "_id": change.row_id,
        "organization_id": document.organization_id,
        "projection_version": document.projection_version,
    }
    row = _to_fields(replace(document, projection_version=change.version))
    row[_WRITE_ID] = change.write_id
    # Not `asdict`, which deep-copies the time.
    last = [*change.earlier, change.event][-EVENTS_REMEMBERED:]
    applied = [{each.name: getattr(event, each.name) for each in fields(event)} for event in last]
    if document.projection_version:
        remembered = {"$push": {"events": {"$each": applied, "$slice": -EVENTS_REMEMBERED}}}
        return UpdateOne(key, {"$set": row, **remembered})
    return InsertOne({**key, **row, _SEQUENCE: 0, "events": applied})


async def _written_among(database: Database, changes: Sequence[DocumentChange]) -> set[DocumentChange]:
    """Return the changes that were stored although others conflicted.

    A row with the version and the id of a change was written by that change.
    """
    ours = {
        "_id": {"$in": [change.row_id for change in changes]},
        "organization_id": {"$in": sorted({change.document.organization_id for change in changes})},
    }
    async with majority_reads(database) as majority:
        rows = majority[NAME].find(ours, {"projection_version": 1, _WRITE_ID: 1})
        stored = {row["_id"]: (row["projection_version"], row[_WRITE_ID]) async for row in rows}
    return {change for change in changes if stored.get(change.row_id) == (change.version, change.write_id)}


async def fence_content(
    database: Database,
    session: MongoSession,
    document: Document,
    *,
    any_of_tags: Collection[str],
) -> tuple[Document, int] | None:
    """Write the row if it still has the text of `document` and one of the tags.

    Returns:
        The document in this transaction and its sequence number, which rises with each swap or removal. None if the
        document has changed: the caller must abort.
    """
    if document.text is None:
        return None
    row = await database[NAME].find_one_and_update(
        {
            "_id": row_id(document.key),
            "organization_id": document.organization_id,
            "alive": True,
            "text_revision": document.text.revision,
            "text_digest": document.text.digest,
            "tag_ids": {"$in": sorted(any_of_tags)},
        },
        {"$inc": {_SEQUENCE: 1}},
        projection=_WITHOUT_EVENTS,
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return (_from_row(row), row[_SEQUENCE]) if row else None


async def fence_projection(database: Database, session: MongoSession, document: Document) -> int | None:
    """Write the row if it is unchanged since `document` was read; return its sequence number. None means abort."""
    row = await database[NAME].find_one_and_update(
        {
            "_id": row_id(document.key),
            "organization_id": document.organization_id,
            "projection_version": document.projection_version,
        },
        {"$inc": {_SEQUENCE: 1}},
        projection={_SEQUENCE: 1},
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return int(row[_SEQUENCE]) if row else None


async def advance_sequences(
    database: Database, session: MongoSession, organization_id: str, *, document_ids: Collection[str]
) -> dict[str, int]:
    """Advance the sequence numbers of documents, which announcements carry, and return them by document.

    An unknown document is absent.
    """
    rows = {
        "_id": {"$in": [row_id(DocumentKey(organization_id, i)) for i in document_ids]},
        "organization_id": organization_id,
    }
    await database[NAME].update_many(rows, {"$inc": {_SEQUENCE: 1}}, session=session)
    raised = database[NAME].find(rows, {"document_id": 1, _SEQUENCE: 1}, session=session)
    return {row["document_id"]: int(row[_SEQUENCE]) async for row in raised}


async def iterate_with_tags(
    database: Database, organization_id: str, *, tag_ids: Sequence[str], after: str | None = None, limit: int = 0
) -> AsyncIterator[Document]:
    """Yield documents with one of the tags, alive or waiting for their text, in the order of `document_id`."""
    query: Row = {"organization_id": organization_id, "tag_ids": {"$in": list(tag_ids)}}
    if after is not None:
        query["document_id"] = {"$gt": after}
    async for row in database[NAME].find(query, _WITHOUT_EVENTS).sort("document_id", ASCENDING).limit(limit):
        yield _from_row(row)


async def find_by_ids(
    database: Database,
    organization_id: str,
    document_ids: Collection[str],
    *,
    session: MongoSession | None = None,
) -> dict[str, Document]:
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(DocumentKey(organization_id, i)) for i in document_ids]},
            "organization_id": organization_id,
        },
        _WITHOUT_EVENTS,
        session=session,
    )
    return {row["document_id"]: _from_row(row) async for row in rows}


async def find_deleted(database: Database, organization_id: str, *, document_ids: Collection[str]) -> set[str]:
    """Return those of the documents that are known and deleted."""
    if not document_ids:
        return set()
    row_ids = [row_id(DocumentKey(organization_id, each)) for each in document_ids]
    deleted: Row = {"_id": {"$in": row_ids}, "organization_id": organization_id, "alive": False}
    # A document whose text has not come yet is not alive either.
    deleted["deleted_revision"] = {"$ne": None}
    return {row["document_id"] async for row in database[NAME].find(deleted, {"document_id": 1})}


async def find_with_warnings(database: Database, organization_id: str, *, document_ids: Collection[str]) -> set[str]:
    """Return those of the documents of which something was left out."""
    if not document_ids:
        return set()
    query: Row = {
        "_id": {"$in": [row_id(DocumentKey(organization_id, each)) for each in document_ids]},
        "organization_id": organization_id,
        "$or": [{"metadata_warnings.0": {"$exists": True}}, {"reading_warnings.0": {"$exists": True}}],
        "$expr": {"$eq": ["$warned_version", "$projection_version"]},
    }
    return {row["document_id"] async for row in database[NAME].find(query, {"document_id": 1})}


async def find_changed_since(
    database: Database, organization_id: str, *, document_ids: Collection[str], since: datetime
) -> set[str]:
    """Return the `document_ids` whose row was written after `since`. Writes of older versions have no time."""
    query = {
        "_id": {"$in": [row_id(DocumentKey(organization_id, i)) for i in document_ids]},
        "organization_id": organization_id,
        "changed_at": {"$gt": since},
    }
    return {row["document_id"] async for row in database[NAME].find(query, {"document_id": 1})}


async def iterate_changed(
    database: Database, *, since: datetime, until: datetime, size: int
) -> AsyncIterator[dict[str, dict[str, frozenset[str]]]]:
    """Yield batches of `size` documents of all organizations, written from `since` to `until`, in that order.

    Each batch maps organizations to documents to their tags.
    """
    query = {"changed_at": {"$gte": since, "$lt": until}}
    rows = database[NAME].find(query, {"_id": 0, "organization_id": 1, "document_id": 1, "tag_ids": 1})
    batch: dict[str, dict[str, frozenset[str]]] = {}
    read = 0
    async for row in rows.sort("changed_at", ASCENDING).batch_size(size):
        batch.setdefault(row["organization_id"], {})[row["document_id"]] = frozenset(row["tag_ids"])
        read += 1
        if read % size == 0:
            yield batch
            batch = {}
    if batch:
        yield batch


async def correct_digests(database: Database, organization_id: str, *, document_ids: Collection[str]) -> None:
    """Store the digests of documents, where a replica of an older version has changed the document since."""
    found = await find_by_ids(database, organization_id, document_ids)
    writes = [
        UpdateOne(
            {
                "_id": row_id(document.key),
                "organization_id": organization_id,
                "projection_version": document.projection_version,
                "digested_version": {"$ne": document.projection_version},
            },
            {"$set": _digest_fields(document)},
        )
        for document in found.values()
    ]
    if writes:
        await database[NAME].bulk_write(writes, ordered=False)


async def find_referenced_texts(database: Database, text_ids: Sequence[str]) -> set[str]:
    """Return the `text_ids`, of any organization, that a document refers to."""
    row_ids = {text_id.rpartition("/")[0] for text_id in text_ids}
    rows = database[NAME].find({"_id": {"$in": sorted(row_ids)}}, {"text_id": 1})
    return {row["text_id"] async for row in rows}


async def count_with_tag(
    database: Database, organization_id: str, *, tag_id: str, session: MongoSession | None = None
) -> int:
    """Count the documents that have a tag, with a text or without one."""
    # Only keys of an index are read.
    return await database[NAME].count_documents(
        {"organization_id": organization_id, "tag_ids": tag_id}, session=session
    )


@dataclass(frozen=True, slots=True)
class DocumentSize:
    """Facts about a document that tell how much work it is."""

    text_id: str | None
    text_length: int | None
    tag_ids: Sequence[str]
    alive: bool


async def find_sizes(
    database: Database, organization_id: str, *, document_ids: Collection[str]
) -> dict[str, DocumentSize]:
    """Return the sizes of the documents that are known."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(DocumentKey(organization_id, i)) for i in document_ids]},
            "organization_id": organization_id,
        },
        {"_id": 0, "document_id": 1, "text_id": 1, "text_length": 1, "tag_ids": 1, "alive": 1},
    )
    return {
        row["document_id"]: DocumentSize(
            row.get("text_id"), row.get("text_length"), row.get("tag_ids", ()), row.get("alive", False)
        )
        async for row in rows
    }


async def count_with_tags(
    database: Database,
    organization_id: str,
    *,
    tag_ids: Sequence[str],
    without: Sequence[str] = (),
    alive: bool = True,
) -> int:
    """Count the documents that have one of `tag_ids` and none of `without`, with a text, or without one."""
    return await database[NAME].count_documents(_tagged(organization_id, tag_ids=tag_ids, without=without, alive=alive))


async def sample_texts_with_tags(
    database: Database, organization_id: str, *, tag_ids: Sequence[str], without: Sequence[str] = (), at_most: int
) -> list[str]:
    """Return the ids of the texts of random documents with one of `tag_ids` and none of `without`, in random order.

    All of them, if they are not more than `at_most`.
    """
    stages: list[Row] = [
        {"$match": _tagged(organization_id, tag_ids=tag_ids, without=without, alive=True)},
        {"$project": {"text_id": 1}},
        {"$sample": {"size": at_most}},
    ]
    rows = await database[NAME].aggregate(stages)
    return [row["text_id"] async for row in rows]


def _tagged(organization_id: str, *, tag_ids: Sequence[str], without: Sequence[str], alive: bool) -> Row:
    tags: Row = {"$in": list(tag_ids)} | ({"$nin": list(without)} if without else {})
    return {"organization_id": organization_id, "tag_ids": tags, "alive": alive}


def _text(row: Row) -> TextFacet:
    facet = _TEXTS.read(row)
    return facet if _knows_warnings(row) else replace(facet, reading_warnings=())


def _metadata(row: Row) -> MetadataFacet:
    facet = _METADATA.read(row)
    return facet if _knows_warnings(row) else replace(facet, warnings=())


def _knows_warnings(row: Row) -> bool:
    """Return whether the warnings are those of the row: a replica of an older version leaves those of before."""
    return bool(row.get("warned_version") == row.get("projection_version"))


def _filter(key: DocumentKey) -> Row:
    return {"_id": row_id(key), "organization_id": key.organization_id}


def _to_fields(document: Document) -> Row:
    text, tags, metadata = document.text, document.tags, document.metadata
    return {
        "document_id": document.document_id,
        "organization_id": document.organization_id,
        "projection_version": document.projection_version,
        "deleted_revision": document.deleted_revision,
        "alive": document.alive,
        "text_revision": text.revision if text else None,
        "text_digest": text.digest if text else None,
        "text_id": text.text_id if text else None,
        "text_length": text.length if text else None,
        "document_name": text.name if text else None,
        "upload_date": text.upload_date if text else None,
        "content_type": text.content_type if text else None,
        "source_digest": text.source_digest if text else None,
        "tags_revision": tags.revision if tags else None,
        "tags_digest": tags.digest if tags else None,
        "tag_ids": list(document.tag_ids),
        "metadata_revision": metadata.revision if metadata else None,
        "metadata_digest": metadata.digest if metadata else None,
        "metadata": dict(document.metadata_values),
        "metadata_warnings": [each.model_dump() for each in metadata.warnings] if metadata else [],
        "reading_warnings": list(text.reading_warnings) if text else [],
        "warned_version": document.projection_version,
        "changed_at": datetime.now(UTC),
        **_digest_fields(document),
    }


def _digest_fields(document: Document) -> Row:
    """Return the digest that drift is found by, with the version of the row that it was computed from.

    A replica of an older version changes the row and leaves both: then the versions differ.
    """
    return {
        "chunk_metadata_digest": chunk_metadata_digest(document) if document.text else None,
        "digested_version": document.projection_version,
    }


def _from_row(row: Row) -> Document:
    return Document(
        organization_id=row["organization_id"],
        document_id=row["document_id"],
        deleted_revision=row.get("deleted_revision"),
        text=_text(row) if row.get("text_revision") is not None else None,
        tags=_TAGS.read(row) if row.get("tags_revision") is not None else None,
        metadata=_metadata(row) if row.get("metadata_revision") is not None else None,
        projection_version=row.get("projection_version", 0),
    )
