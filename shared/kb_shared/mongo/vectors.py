"""`kb_vectors_{kb_id}`: the chunks of a KB, with version ranges.

The search indexes lag behind this collection by a second or more. Searches look up the ids that they return here. So
an id always means the same text and vector (`{document_id}:{passage_hash[:24]}:{n}`), and chunks that a swap replaces
are kept for a while: a chunk is live from version `since`, and until version `until` once that is set.
`found_chunks` decides which chunks a reader may show (rule 1 of docs/explanation/architecture.md).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pymongo import ASCENDING, IndexModel, InsertOne, ReplaceOne, UpdateMany, UpdateOne

from kb_shared.mongo.chunks_digest import hash_text, hash_vector
from kb_shared.mongo.database import Collection as MongoCollection
from kb_shared.mongo.database import Database, MongoSession, Row, long_commands
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.rows import RowMapper
from kb_shared.text.text_normalization import hash_passage

if TYPE_CHECKING:  # numpy, which the reconciler counts chunks without
    from kb_shared.mongo.vector import Vector

RETIRED_LIFETIME = timedelta(seconds=60)
"""Lifetime of retired chunks that no probe has deleted: then the TTL index deletes them."""
INDEXES = [
    # Readers use its first two fields. With the others, it answers the comparison of all chunks of a KB with
    # `document_index` without reading a chunk.
    IndexModel(
        [(name, ASCENDING) for name in ("document_id", "chunk_index", "until", "_id", "kb_id", "organization_id")],
        name="chunks_of_documents",
    ),
    IndexModel([("retired_at", ASCENDING)], expireAfterSeconds=int(RETIRED_LIFETIME.total_seconds())),
]
_HASH_LENGTH: Final = 24
"""Number of characters of the passage hash in the id of a chunk."""
Write = InsertOne[Row] | ReplaceOne[Row] | UpdateOne | UpdateMany


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of one KB. Every query filters by the KB, so that small KBs could share a collection."""

    collection: MongoCollection
    organization_id: str
    kb_id: str

    @property
    def scope(self) -> Row:
        return {"organization_id": self.organization_id, "kb_id": self.kb_id}

    def filter_document(self, document_id: str) -> Row:
        return {**self.scope, "document_id": document_id}

    def within(self, database: Database) -> "Chunks":
        """Return the same chunks with the read concern of `database`."""
        return Chunks(database[self.collection.name], self.organization_id, self.kb_id)


async def create_indexes(collection: MongoCollection) -> None:
    """Create missing indexes. In a filled collection this may take minutes."""
    with long_commands():
        await collection.create_indexes(INDEXES)


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
    """Chunk to store; `vector` is the vector of the text whose hash is `chunk_hash`."""

    chunk_index: int
    chunk_hash: str
    passage_hash: str
    """Hash that is equal only for chunks with the same vector and the same `text`."""
    text: str
    vector: "Vector"
    token_count: int
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading_path: tuple[str, ...]
    chunk_type: str
    embedding_text: str | None = None
    """Text that was embedded in place of `text`. Words are found by it, and no reader gets it."""
    spellings: str | None = None
    """Other spellings of the words in these texts; None in KBs without them."""

    def position(self) -> Row:
        """Return the fields that may differ between two occurrences of the same text."""
        spelled = {} if self.spellings is None else {"spellings": self.spellings}
        return spelled | {
            "chunk_index": self.chunk_index,
            "start": self.start,
            "end": self.end,
            "page_start": self.page_start,
            "page_end": self.page_end,
            "heading_path": list(self.heading_path),
            "chunk_type": self.chunk_type,
            "token_count": self.token_count,
        }


# Not frozen: a frozen one takes twice as long to make, and a search makes one of each result.
@dataclass(slots=True, kw_only=True)
class StoredChunk:
    """Chunk as readers get it, without its vector and versions."""

    chunk_id: str
    document_id: str
    chunk_index: int
    text: str
    token_count: int
    start: int
    end: int
    upload_date: datetime
    document_name: str = ""
    page_start: int | None = None
    page_end: int | None = None
    heading_path: list[str] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ListedChunk(StoredChunk):
    """Chunk with what only the list of a document's chunks shows."""

    indexed_at: datetime
    chunk_type: str = "text"


_STORED_NAMES: Final = {"chunk_id": "_id", "text": "chunk_text", "metadata": "metadata_snapshot"}
_WITHOUT_VECTOR: Final = {"embedding": 0}
STORED_CHUNKS: Final = RowMapper(StoredChunk, names=_STORED_NAMES)
_LISTED_CHUNKS: Final = RowMapper(ListedChunk, names=_STORED_NAMES)


def chunk_ids(document_id: str, chunks: Iterable[EmbeddedChunk]) -> dict[str, EmbeddedChunk]:
    """Return the chunks by id. Each occurrence of the same text in a document has its own id."""
    ids: dict[str, EmbeddedChunk] = {}
    occurrences: dict[str, int] = {}
    for chunk in chunks:
        n = occurrences.get(chunk.passage_hash, 0)
        occurrences[chunk.passage_hash] = n + 1
        ids[f"{document_id}:{chunk.passage_hash[:_HASH_LENGTH]}:{n}"] = chunk
    return ids


def document_of(chunk_id: str) -> str:
    """Return the document of a chunk. Ids of documents contain no colon."""
    return chunk_id.rsplit(":", 2)[0]


CONTENT_FIELDS: Final = ("chunk_hash", "chunk_text", "embedding_text")
"""Fields of a row that its id is made of."""
_CHUNK_ID: Final = re.compile(rf"[A-Za-z0-9._-]{{1,128}}:[0-9a-f]{{{_HASH_LENGTH}}}:[0-9]{{1,9}}")


def is_chunk_id(value: str) -> bool:
    """Return whether `value` has the form of the id of a chunk."""
    return _CHUNK_ID.fullmatch(value) is not None


def has_content_of_id(row: Row, text_normalization: int) -> bool:
    """Return whether a row with `CONTENT_FIELDS` has the texts and the hash that its id was made of."""
    passage_hash = hash_passage(
        row["chunk_hash"], row["chunk_text"], text_normalization, embedding_text=row.get("embedding_text")
    )
    return str(row["_id"]).rsplit(":", 2)[1] == passage_hash[:_HASH_LENGTH]


async def find_rows(chunks: Chunks, session: MongoSession, document_id: str) -> list[Row]:
    """Return all rows of a document, retired ones too, with hashes in place of text and vector."""
    hashes = {
        "text_hash": {"$toHashedIndexKey": "$chunk_text"},
        "vector_hash": {"$toHashedIndexKey": "$embedding"},
    }
    rows = await chunks.collection.aggregate(
        [
            {"$match": chunks.filter_document(document_id)},
            {"$set": hashes},
            {"$unset": ["embedding", "chunk_text"]},
        ],
        session=session,
    )
    return await rows.to_list()


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes of a swap."""

    writes: list[Write]
    inserted: tuple[str, ...]
    """Ids that the search indexes don't contain yet."""
    retired: int


def plan_changes(
    *,
    scope: Mapping[str, Any],
    document_id: str,
    chunks: Sequence[EmbeddedChunk],
    metadata: ChunkMetadata,
    version: int,
    before: Iterable[Row],
) -> Changes:
    """Decide which rows to insert, revive, update and retire; equal rows are not written.

    Args:
        scope: `organization_id` and `kb_id`, carried by every row.
        version: of this swap; the chunks that it replaces were live until `version - 1`.
        before: all rows of the document as `find_rows` gives them.
    """
    from kb_shared.mongo.vector import to_binary  # numpy

    now = datetime.now(UTC)
    wanted = chunk_ids(document_id, chunks)
    carried = metadata.fields()
    rows = {row["_id"]: row for row in before}
    writes: list[Write] = []
    inserted: list[str] = []
    for identity, chunk in wanted.items():
        fields = chunk.position() | carried
        content: Row = {"chunk_hash": chunk.chunk_hash, "chunk_text": chunk.text, "embedding": to_binary(chunk.vector)}
        if chunk.embedding_text is not None:
            content["embedding_text"] = chunk.embedding_text
        row = rows.get(identity)
        if row is not None and row["until"] is None:
            # The same id means the same text and vector, unless the row is damaged or the provider has moved.
            if not _has_content(row, content):
                fields |= content
            if any(row.get(name) != value for name, value in fields.items()):
                writes.append(UpdateOne({"_id": identity, **scope}, {"$set": {**fields, "indexed_at": now}}))
            continue
        inserted.append(identity)
        new = {
            "_id": identity,
            **scope,
            "document_id": document_id,
            **content,
            **fields,
            "indexed_at": now,
            "since": version,
            "until": None,
        }
        # A retired row is revived under its old id, which still means the same text.
        writes.append(InsertOne(new) if row is None else ReplaceOne({"_id": identity, **scope}, new, upsert=True))
    gone = [identity for identity, row in rows.items() if row["until"] is None and identity not in wanted]
    if gone:
        # The server's clock, by which readers compute the age of the row, too.
        retirement = {"until": version - 1, "retired_at": "$$NOW"}
        writes.append(UpdateMany({"_id": {"$in": gone}, **scope}, [{"$set": retirement}]))
    return Changes(writes, tuple(inserted), len(gone))


def _has_content(row: Row, content: Row) -> bool:
    stored = (row.get("chunk_hash"), row["text_hash"], row["vector_hash"], row.get("embedding_text"))
    return stored == (
        content["chunk_hash"],
        hash_text(content["chunk_text"]),
        hash_vector(content["embedding"]),
        content.get("embedding_text"),
    )


async def write(chunks: Chunks, session: MongoSession, writes: Sequence[Write]) -> None:
    if writes:
        await chunks.collection.bulk_write(list(writes), ordered=False, session=session)


async def update_metadata(chunks: Chunks, session: MongoSession, document_id: str, *, metadata: ChunkMetadata) -> None:
    """Update the chunk metadata of the live chunks; vectors are not changed."""
    await chunks.collection.update_many(
        {**chunks.filter_document(document_id), "until": None},
        {"$set": {**metadata.fields(), "indexed_at": datetime.now(UTC)}},
        session=session,
    )


async def find_live(chunks: Chunks, session: MongoSession, document_id: str, *, fields: Sequence[str]) -> list[Row]:
    """Return `fields` of the live chunks of a document."""
    query = {**chunks.filter_document(document_id), "until": None}
    return await chunks.collection.find(query, dict.fromkeys(fields, 1), session=session).to_list()


async def count_live(chunks: Chunks, document_ids: Collection[str]) -> dict[str, int]:
    """Count the live chunks by document; a document without live chunks is absent."""
    live = {**chunks.scope, "document_id": {"$in": list(document_ids)}, "until": None}
    rows = await chunks.collection.aggregate(
        [{"$match": live}, {"$group": {"_id": "$document_id", "chunks": {"$sum": 1}}}]
    )
    return {row["_id"]: row["chunks"] async for row in rows}


async def sample_texts(chunks: Chunks, *, at_most: int) -> list[str]:
    """Return the texts of random live chunks, without reading all chunks.

    They may be fewer than there are: some of those that MongoDB chooses may have been replaced a moment ago.
    """
    stages: list[Row] = [
        # As the first stage it reads as many rows as it returns.
        {"$sample": {"size": 2 * at_most}},
        {"$match": {**chunks.scope, "until": None}},
        {"$limit": at_most},
        {"$project": {"_id": 0, "chunk_text": 1}},
    ]
    return [row["chunk_text"] async for row in await chunks.collection.aggregate(stages)]


async def delete_document(chunks: Chunks, session: MongoSession, document_id: str) -> None:
    """Delete all rows of a document, live and retired."""
    await chunks.collection.delete_many(chunks.filter_document(document_id), session=session)


async def delete_retired(chunks: Chunks, document_id: str, *, up_to_version: int) -> int:
    query = {**chunks.filter_document(document_id), "until": {"$ne": None, "$lte": up_to_version}}
    return (await chunks.collection.delete_many(query)).deleted_count


async def find_live_chunk(chunks: Chunks, chunk_id: str, *, session: MongoSession | None = None) -> ListedChunk | None:
    """Return a chunk, unless it was replaced."""
    row = await chunks.collection.find_one(
        {"_id": chunk_id, **chunks.scope, "until": None}, _WITHOUT_VECTOR, session=session
    )
    return _LISTED_CHUNKS.read(row) if row else None


async def find_newest_ids(chunks: Chunks, document_id: str, *, version: int, limit: int) -> list[str]:
    """Return up to `limit` live chunks of a document that came with `version`: those that indexes get last."""
    query = {**chunks.filter_document(document_id), "until": None, "since": version}
    return [row["_id"] async for row in chunks.collection.find(query, {"_id": 1}).limit(limit)]


async def find_page_of_document(
    chunks: Chunks, session: MongoSession, document_id: str, *, skip: int, limit: int
) -> tuple[list[ListedChunk], int]:
    """Return a page of the live chunks of a document in their order, without vectors, and their total number."""
    query = {**chunks.filter_document(document_id), "until": None}
    rows = chunks.collection.find(query, _WITHOUT_VECTOR, session=session).sort("chunk_index", ASCENDING)
    page = await rows.skip(skip).limit(limit).to_list()
    return [_LISTED_CHUNKS.read(row) for row in page], await chunks.collection.count_documents(query, session=session)
