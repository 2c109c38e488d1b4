"""`kb_vectors_{kb_id}`: the chunks of a KB, with version ranges.

The search index trails this collection by a second or more and answers with ids that are looked up here afterwards.
So an id always means the same text and the same vector (`{document_id}:{passage_hash[:24]}:{n}`), and what a swap
replaces stays for a while: a chunk is live from version `since`, and until version `until` once that is set.
`found_chunks` says what a reader may show of chunks in any state (rule 1 of docs/explanation/architecture.md).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pymongo import ASCENDING, IndexModel, InsertOne, ReplaceOne, UpdateMany, UpdateOne

from kb_shared.mongo.database import Collection as MongoCollection
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

if TYPE_CHECKING:  # numpy, which the reconciler counts chunks without
    from kb_shared.mongo.vector import Vector

RETIRED_LIFETIME = timedelta(seconds=60)
"""Lifetime of retired chunks that no probe has deleted: then the TTL index deletes them."""
INDEXES = [
    IndexModel([("document_id", ASCENDING), ("chunk_index", ASCENDING)]),
    IndexModel([("retired_at", ASCENDING)], expireAfterSeconds=int(RETIRED_LIFETIME.total_seconds())),
]
Write = InsertOne[Row] | ReplaceOne[Row] | UpdateOne | UpdateMany


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of one KB. Every query is bound to it, so that small KBs can share a collection some day."""

    collection: MongoCollection
    organization_id: str
    kb_id: str

    @property
    def scope(self) -> Row:
        return {"organization_id": self.organization_id, "kb_id": self.kb_id}

    def filter_document(self, document_id: str) -> Row:
        return {**self.scope, "document_id": document_id}

    def within(self, database: Database) -> "Chunks":
        """The same chunks, read as `database` reads."""
        return Chunks(database[self.collection.name], self.organization_id, self.kb_id)


def chunks_of(database: Database, kb: KnowledgeBase) -> Chunks:
    return Chunks(database[kb.vector_collection], kb.organization_id, kb.kb_id)


@dataclass(frozen=True, slots=True)
class ChunkMetadata:
    """Fields of a document that each of its chunks carries."""

    document_name: str
    tag_ids: tuple[str, ...]
    upload_date: datetime
    metadata: Mapping[str, Any]
    metadata_pairs: tuple[str, ...]

    def fields(self) -> Row:
        return {
            "document_name": self.document_name,
            "tag_ids": list(self.tag_ids),
            "upload_date": self.upload_date,
            "metadata_snapshot": dict(self.metadata),
            "metadata_pairs": list(self.metadata_pairs),
        }


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk as it is to be stored; `vector` is of the text that `chunk_hash` is the hash of."""

    chunk_index: int
    chunk_hash: str
    passage_hash: str
    """The same only for chunks with the same vector and the same `text`."""
    text: str
    vector: "Vector"
    token_count: int
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading_path: tuple[str, ...]
    chunk_type: str

    def position(self) -> Row:
        """The fields that may differ between two places of the same text."""
        return {
            "chunk_index": self.chunk_index,
            "start": self.start,
            "end": self.end,
            "page_start": self.page_start,
            "page_end": self.page_end,
            "heading_path": list(self.heading_path),
            "chunk_type": self.chunk_type,
            "token_count": self.token_count,
        }


def chunk_ids(document_id: str, chunks: Iterable[EmbeddedChunk]) -> dict[str, EmbeddedChunk]:
    """The id of each chunk; the n-th occurrence of the same text in a document has its own."""
    ids: dict[str, EmbeddedChunk] = {}
    occurrences: dict[str, int] = {}
    for chunk in chunks:
        n = occurrences.get(chunk.passage_hash, 0)
        occurrences[chunk.passage_hash] = n + 1
        ids[f"{document_id}:{chunk.passage_hash[:24]}:{n}"] = chunk
    return ids


def document_of(chunk_id: str) -> str:
    """The document whose text a chunk is a part of; no id of a document holds a colon."""
    return chunk_id.rsplit(":", 2)[0]


async def stored(chunks: Chunks, session: MongoSession, document_id: str) -> list[Row]:
    """All rows of a document, retired ones too, without text and vector."""
    rows = chunks.collection.find(
        chunks.filter_document(document_id), {"embedding": 0, "chunk_text": 0}, session=session
    )
    return await rows.to_list()


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes of a swap."""

    writes: list[Write]
    inserted: tuple[str, ...]
    """Ids the search index does not know yet."""
    retired: int


def changes(
    *,
    scope: Mapping[str, Any],
    document_id: str,
    chunks: Sequence[EmbeddedChunk],
    snapshot: ChunkMetadata,
    version: int,
    before: Iterable[Row],
) -> Changes:
    """Decide which rows to insert, revive, update and retire; equal ones are left alone.

    Args:
        scope: `organization_id` and `kb_id`, carried by every row.
        version: of this swap; what it replaces was live until `version - 1`.
        before: all rows of the document as `stored` gives them.
    """
    from kb_shared.mongo.vector import to_binary  # numpy

    now = datetime.now(UTC)
    wanted = chunk_ids(document_id, chunks)
    carried = snapshot.fields()
    rows = {row["_id"]: row for row in before}
    writes: list[Write] = []
    inserted: list[str] = []
    for identity, chunk in wanted.items():
        fields = chunk.position() | carried
        row = rows.get(identity)
        if row is not None and row["until"] is None:
            if any(row.get(name) != value for name, value in fields.items()):
                writes.append(UpdateOne({"_id": identity, **scope}, {"$set": {**fields, "indexed_at": now}}))
            continue
        inserted.append(identity)
        new = {
            "_id": identity,
            **scope,
            "document_id": document_id,
            "chunk_hash": chunk.chunk_hash,
            "chunk_text": chunk.text,
            "embedding": to_binary(chunk.vector),
            **fields,
            "indexed_at": now,
            "since": version,
            "until": None,
        }
        # A retired row comes back to life under its old id, which still means the same text.
        writes.append(InsertOne(new) if row is None else ReplaceOne({"_id": identity, **scope}, new, upsert=True))
    gone = [identity for identity, row in rows.items() if row["until"] is None and identity not in wanted]
    if gone:
        # The server's clock, which the reader's age of the row comes from too.
        retirement = {"until": version - 1, "retired_at": "$$NOW"}
        writes.append(UpdateMany({"_id": {"$in": gone}, **scope}, [{"$set": retirement}]))
    return Changes(writes, tuple(inserted), len(gone))


async def write(chunks: Chunks, session: MongoSession, writes: Sequence[Write]) -> None:
    if writes:
        await chunks.collection.bulk_write(list(writes), ordered=False, session=session)


async def set_snapshot(chunks: Chunks, session: MongoSession, document_id: str, *, snapshot: ChunkMetadata) -> None:
    """Update what the live chunks carry of their document; vectors stay."""
    await chunks.collection.update_many(
        {**chunks.filter_document(document_id), "until": None},
        {"$set": {**snapshot.fields(), "indexed_at": datetime.now(UTC)}},
        session=session,
    )


async def count_live(chunks: Chunks, document_ids: Collection[str]) -> dict[str, int]:
    """Live chunks by document; a document without any is absent."""
    live = {**chunks.scope, "document_id": {"$in": list(document_ids)}, "until": None}
    rows = await chunks.collection.aggregate(
        [{"$match": live}, {"$group": {"_id": "$document_id", "chunks": {"$sum": 1}}}]
    )
    return {row["_id"]: row["chunks"] async for row in rows}


async def delete_document(chunks: Chunks, session: MongoSession, document_id: str) -> None:
    """Live and retired rows alike: who leaves a KB leaves at once."""
    await chunks.collection.delete_many(chunks.filter_document(document_id), session=session)


async def delete_retired(chunks: Chunks, document_id: str, *, up_to_version: int) -> int:
    query = {**chunks.filter_document(document_id), "until": {"$ne": None, "$lte": up_to_version}}
    return (await chunks.collection.delete_many(query)).deleted_count


async def page_of_document(
    chunks: Chunks, session: MongoSession, document_id: str, *, skip: int, limit: int
) -> tuple[list[Row], int]:
    """Some of the live chunks of a document in their order, without vectors, and how many there are in all."""
    query = {**chunks.filter_document(document_id), "until": None}
    rows = chunks.collection.find(query, {"embedding": 0}, session=session).sort("chunk_index", ASCENDING)
    page = await rows.skip(skip).limit(limit).to_list()
    return page, await chunks.collection.count_documents(query, session=session)
