"""`document_index`: which documents are in which KB, and what is indexed of them.

Decisions about membership read it. Each swap writes this row first, so two swaps of one document follow one another.
"""

import re
from collections.abc import AsyncIterator, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument, UpdateOne

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.keys import DocumentKey, KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.rows import RowMapper

NAME = "document_index"
INDEXES = [
    IndexModel([("kb_id", ASCENDING), ("document_id", ASCENDING)], unique=True),
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING)]),
    IndexModel([("kb_id", ASCENDING), ("indexed_at", DESCENDING)]),
    # For the number of empty documents, of which there are few.
    IndexModel([("kb_id", ASCENDING)], partialFilterExpression={"chunk_count": 0}),
]


@dataclass(frozen=True, slots=True)
class IndexingWork:
    """Effort to make the chunks and vectors of a document."""

    duration_s: float
    """Seconds to chunk and embed it, with the waits for the provider."""
    embeddings: int
    """Number of vectors that were generated and charged."""
    cached: int
    """Number of vectors that were paid for before."""


@dataclass(frozen=True, slots=True)
class RecentIndexing:
    """Means over the documents of a KB that were indexed last."""

    duration_s: float | None
    cache_hit_ratio: float | None
    """Share of the vectors that were paid for before."""

    @property
    def mean_indexing_s(self) -> float | None:
        """The mean time that a document took, to the millisecond."""
        return None if self.duration_s is None else round(self.duration_s, 3)


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    organization_id: str
    kb_id: str
    document_id: str
    version: int
    """Number of the last swap, from 1; starts again when a document has left and comes back."""
    chunk_count: int
    text_revision: int
    content_digest: str
    """Digest of the text with its pages."""
    chunk_metadata_digest: str
    """Digest of name, tags, date and metadata as the chunks carry them."""
    config_hash: str
    document_name: str
    indexed_at: datetime | None = None
    """Time of the last swap; set when the row is written."""
    chunks_digest: int | None = None
    """Digest of the live chunks (`chunks_digest.py`); None in rows from before this field."""
    vectors_digest: int | None = None
    """Digest of the vectors of the live chunks (`chunks_digest.py`); None in rows from before this field."""
    vector_space: VectorSpace | None = None
    """Space of the vectors of the live chunks; None in rows from before this field."""
    work: IndexingWork | None = None
    """Effort of the last swap of chunks; None in rows from before this field."""
    content_checked: bool = False
    """True if text, name and metadata were checked for credentials, as the KB asks for since it refuses those."""

    @property
    def key(self) -> MembershipKey:
        return MembershipKey(self.organization_id, self.kb_id, self.document_id)


VECTOR_SPACES: Final = RowMapper(VectorSpace)
"""Mapping of what `VectorSpace.to_row` returns."""
_WORK: Final = RowMapper(IndexingWork)
_ROWS: Final = RowMapper(
    IndexedDocument,
    names={"chunk_metadata_digest": "snapshot_digest"},
    convert={"vector_space": VECTOR_SPACES.read, "work": _WORK.read},
)

_RECENT_DOCUMENTS: Final = 1_000


def row_id(*, kb_id: str, document_id: str) -> str:
    return f"{kb_id}/{document_id}"


async def find(
    database: Database, key: MembershipKey, *, session: MongoSession | None = None
) -> IndexedDocument | None:
    row = await database[NAME].find_one(_filter(key), session=session)
    return _ROWS.read(row) if row else None


async def find_of_documents(
    database: Database, organization_id: str, document_ids: Collection[str]
) -> dict[str, list[IndexedDocument]]:
    """Return the rows of documents in all KBs, by document; a document that is in no KB is absent."""
    rows = database[NAME].find({"organization_id": organization_id, "document_id": {"$in": list(document_ids)}})
    found: dict[str, list[IndexedDocument]] = {}
    async for row in rows:
        found.setdefault(row["document_id"], []).append(_ROWS.read(row))
    return found


async def begin_swap(
    database: Database, session: MongoSession, key: MembershipKey
) -> tuple[int, IndexedDocument | None]:
    """Write the row before anything else; return the version of this swap and the row before the write."""
    before = await database[NAME].find_one_and_update(
        _filter(key),
        {"$inc": {"version": 1}, "$setOnInsert": {"kb_id": key.kb_id, "document_id": key.document_id}},
        upsert=True,
        return_document=ReturnDocument.BEFORE,
        session=session,
    )
    if before is None:
        return 1, None
    return before["version"] + 1, _ROWS.read(before)


async def acknowledge(
    database: Database, session: MongoSession, revisions: Collection[tuple[IndexedDocument, int]]
) -> bool:
    """Store the new revisions of rows of one organization.

    Returns:
        False means abort: a row has another revision than when it was read.
    """
    written = await database[NAME].bulk_write(
        [
            UpdateOne(
                {
                    "_id": row_id(kb_id=row.kb_id, document_id=row.document_id),
                    "organization_id": row.organization_id,
                    # A write since the row was read has stored a later revision. It was a swap, of a document with at
                    # least the revision acknowledged here, or this acknowledgement, if the response to its commit was
                    # lost. So the version of the row need not be compared.
                    "text_revision": row.text_revision,
                },
                {"$set": {"text_revision": revision}},
            )
            for row, revision in revisions
        ],
        session=session,
    )
    return written.matched_count == len(revisions)


async def finish_swap(database: Database, session: MongoSession, row: IndexedDocument) -> None:
    """Store what is indexed now."""
    await database[NAME].update_one(
        _filter(row.key),
        {
            "$set": {
                "chunk_count": row.chunk_count,
                "text_revision": row.text_revision,
                "content_digest": row.content_digest,
                "snapshot_digest": row.chunk_metadata_digest,
                "config_hash": row.config_hash,
                "document_name": row.document_name,
                "chunks_digest": row.chunks_digest,
                "vectors_digest": row.vectors_digest,
                "vector_space": row.vector_space and row.vector_space.to_row(),
                "work": row.work and asdict(row.work),
                "content_checked": row.content_checked,
                "indexed_at": datetime.now(UTC),
            }
        },
        session=session,
    )


async def delete(database: Database, session: MongoSession, key: MembershipKey) -> None:
    await database[NAME].delete_one(_filter(key), session=session)


async def delete_of_kb(database: Database, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_many({"organization_id": key.organization_id, "kb_id": key.kb_id})


async def iterate_kb(
    database: Database, key: KnowledgeBaseKey, *, after: str | None = None, limit: int = 0
) -> AsyncIterator[IndexedDocument]:
    """Yield the rows of a KB in the order of `document_id`."""
    query: Row = {"organization_id": key.organization_id, "kb_id": key.kb_id}
    if after is not None:
        query["document_id"] = {"$gt": after}
    async for row in database[NAME].find(query).sort("document_id", ASCENDING).limit(limit):
        yield _ROWS.read(row)


async def find_by_ids(
    database: Database, key: KnowledgeBaseKey, document_ids: Collection[str]
) -> dict[str, IndexedDocument]:
    """Return the rows of the `document_ids` that are in the KB, by document."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(kb_id=key.kb_id, document_id=i) for i in document_ids]},
            "organization_id": key.organization_id,
        }
    )
    return {row["document_id"]: _ROWS.read(row) async for row in rows}


async def find_named(
    database: Database, organization_id: str, *, kb_ids: Collection[str], part_of_name: str, limit: int
) -> list[str]:
    """Return up to `limit` documents of KBs whose name contains a text, in upper or lower case."""
    named = {"$regex": re.escape(part_of_name), "$options": "i"}
    query = {"organization_id": organization_id, "kb_id": {"$in": list(kb_ids)}, "document_name": named}
    rows = await database[NAME].aggregate([{"$match": query}, {"$group": {"_id": "$document_id"}}, {"$limit": limit}])
    return [row["_id"] async for row in rows]


async def is_in_any(database: Database, key: DocumentKey, *, kb_ids: Collection[str]) -> bool:
    """Return whether the document is indexed in one of the KBs."""
    ids = [row_id(kb_id=kb_id, document_id=key.document_id) for kb_id in kb_ids]
    return await database[NAME].count_documents({"_id": {"$in": ids}, "organization_id": key.organization_id}) > 0


async def count(database: Database, key: KnowledgeBaseKey) -> int:
    return await database[NAME].count_documents({"organization_id": key.organization_id, "kb_id": key.kb_id})


async def count_empty(database: Database, key: KnowledgeBaseKey) -> int:
    """Count the documents of a KB without chunks."""
    return await database[NAME].count_documents(
        {"organization_id": key.organization_id, "kb_id": key.kb_id, "chunk_count": 0}
    )


async def measure_recent(database: Database, key: KnowledgeBaseKey) -> RecentIndexing:
    """Measure the indexing of the documents of a KB that were indexed last, at most a thousand."""
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id}},
        {"$sort": {"indexed_at": -1}},
        {"$limit": _RECENT_DOCUMENTS},
        {
            "$group": {
                "_id": None,
                "duration_s": {"$avg": "$work.duration_s"},
                "embeddings": {"$sum": "$work.embeddings"},
                "cached": {"$sum": "$work.cached"},
            }
        },
    ]
    rows = await (await database[NAME].aggregate(stages)).to_list()
    if not rows:
        return RecentIndexing(None, None)
    row = rows[0]
    vectors = row["embeddings"] + row["cached"]
    return RecentIndexing(
        duration_s=row["duration_s"],
        cache_hit_ratio=row["cached"] / vectors if vectors else None,
    )


async def find_last_indexed(database: Database, key: KnowledgeBaseKey, *, at_most: int) -> list[IndexedDocument]:
    """Return the documents of a KB that were indexed last, in the order of time."""
    query = {"organization_id": key.organization_id, "kb_id": key.kb_id}
    rows = database[NAME].find(query).sort("indexed_at", DESCENDING).limit(at_most)
    return [_ROWS.read(row) async for row in rows][::-1]


async def count_chunks(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> tuple[int, int]:
    """Count the documents of a KB, and the chunks that their rows say they have."""
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id}},
        {"$group": {"_id": None, "documents": {"$sum": 1}, "chunks": {"$sum": "$chunk_count"}}},
    ]
    rows = await (await database[NAME].aggregate(stages, session=session)).to_list()
    return (rows[0]["documents"], rows[0]["chunks"]) if rows else (0, 0)


async def count_chunks_indexed(database: Database, key: KnowledgeBaseKey, *, until: datetime) -> int:
    """Count the chunks of the documents of a KB that were last indexed before `until`."""
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id, "indexed_at": {"$lt": until}}},
        {"$group": {"_id": None, "chunks": {"$sum": "$chunk_count"}}},
    ]
    rows = await (await database[NAME].aggregate(stages)).to_list()
    return int(rows[0]["chunks"]) if rows else 0


async def iterate_chunk_counts(
    database: Database, session: MongoSession, key: KnowledgeBaseKey
) -> AsyncIterator[tuple[str, int]]:
    """Yield the documents of a KB with their numbers of chunks."""
    query = {"organization_id": key.organization_id, "kb_id": key.kb_id}
    async for row in database[NAME].find(query, {"_id": 0, "document_id": 1, "chunk_count": 1}, session=session):
        yield row["document_id"], row["chunk_count"]


async def find_last_indexed_at(database: Database, key: KnowledgeBaseKey) -> datetime | None:
    """Return when a document of the KB was last indexed; None if no document is."""
    row = await database[NAME].find_one(
        {"organization_id": key.organization_id, "kb_id": key.kb_id},
        {"indexed_at": 1},
        sort=[("indexed_at", DESCENDING)],
    )
    return row["indexed_at"] if row else None


def build_union_stage(key: KnowledgeBaseKey, document_ids: Collection[str]) -> Row:
    """Build the stage of a query on another collection that adds an `indexed_document` for each one in the KB."""
    rows = {
        "_id": {"$in": [row_id(kb_id=key.kb_id, document_id=i) for i in document_ids]},
        "organization_id": key.organization_id,
    }
    only_id = {"_id": 0, "indexed_document": "$document_id"}
    return {"$unionWith": {"coll": NAME, "pipeline": [{"$match": rows}, {"$project": only_id}]}}


def _filter(key: MembershipKey) -> Row:
    return {"_id": row_id(kb_id=key.kb_id, document_id=key.document_id), "organization_id": key.organization_id}
