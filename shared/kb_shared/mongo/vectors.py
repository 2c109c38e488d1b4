"""`kb_vectors_{kb_id}`: the chunks of a KB, with version ranges.

The search index trails this collection by a second or more and answers with ids that are looked up here afterwards.
So an id always means the same text and the same vector (`{document_id}:{chunk_hash[:24]}:{n}`), and what a swap
replaces stays for a while: a chunk is live from version `since`, and until version `until` once that is set.
`visible` says what a reader may show of hits in any state (rule 1 of the architecture).
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pymongo import ASCENDING, IndexModel, InsertOne, ReplaceOne, UpdateMany, UpdateOne

from kb_shared.mongo import document_index
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, TEXT_PATHS, VECTOR_INDEX
from kb_shared.mongo.database import Collection as MongoCollection
from kb_shared.mongo.database import Database, Row, Session
from kb_shared.mongo.knowledge_bases import KnowledgeBase

if TYPE_CHECKING:  # numpy, which the reconciler counts chunks without
    from kb_shared.embedding.vector import Vector

RETIRED_LIFETIME = timedelta(seconds=60)
"""What no probe has deleted is deleted by the TTL."""
SHOWN_AFTER_RETIREMENT = timedelta(seconds=10)
"""How long a reader may show a replaced version while its successor is not searchable yet."""

INDEXES = [
    IndexModel([("document_id", ASCENDING), ("chunk_index", ASCENDING)]),
    IndexModel([("retired_at", ASCENDING)], expireAfterSeconds=int(RETIRED_LIFETIME.total_seconds())),
]
_SHOWN: Final = dict.fromkeys(
    (
        "document_id",
        "document_name",
        "upload_date",
        "metadata_snapshot",
        "chunk_index",
        "chunk_text",
        "token_count",
        "start",
        "end",
        "page_start",
        "page_end",
        "heading_path",
        "since",
        "until",
    ),
    1,
)
"""What a result is made of, and what tells whether it may be shown."""
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

    def of(self, document_id: str) -> Row:
        return {**self.scope, "document_id": document_id}


def chunks_of(database: Database, kb: KnowledgeBase) -> Chunks:
    return Chunks(database[kb.vector_collection], kb.organization_id, kb.kb_id)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What every chunk of a document carries of it."""

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
        n = occurrences.get(chunk.chunk_hash, 0)
        occurrences[chunk.chunk_hash] = n + 1
        ids[f"{document_id}:{chunk.chunk_hash[:24]}:{n}"] = chunk
    return ids


def document_of(chunk_id: str) -> str:
    """The document whose text a chunk is a part of; no id of a document holds a colon."""
    return chunk_id.rsplit(":", 2)[0]


async def stored(chunks: Chunks, session: Session, document_id: str) -> list[Row]:
    """All rows of a document, retired ones too, without text and vector."""
    rows = chunks.collection.find(chunks.of(document_id), {"embedding": 0, "chunk_text": 0}, session=session)
    return await rows.to_list()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a swap has to write."""

    writes: list[Write]
    inserted: tuple[str, ...]
    """Ids the search index does not know yet."""
    retired: int


def changes(
    *,
    scope: Mapping[str, Any],
    document_id: str,
    chunks: Sequence[EmbeddedChunk],
    snapshot: Snapshot,
    version: int,
    before: Iterable[Row],
) -> Changes:
    """Decide which rows to insert, revive, update and retire; equal ones are left alone.

    Args:
        scope: `organization_id` and `kb_id`, carried by every row.
        version: of this swap; what it replaces was live until `version - 1`.
        before: all rows of the document as `stored` gives them.
    """
    from kb_shared.embedding.vector import to_binary  # numpy

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


async def write(chunks: Chunks, session: Session, writes: Sequence[Write]) -> None:
    if writes:
        await chunks.collection.bulk_write(list(writes), ordered=False, session=session)


async def set_snapshot(chunks: Chunks, session: Session, document_id: str, snapshot: Snapshot) -> None:
    """Update what the live chunks carry of their document; vectors stay."""
    await chunks.collection.update_many(
        {**chunks.of(document_id), "until": None},
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


async def delete_document(chunks: Chunks, session: Session, document_id: str) -> None:
    """Live and retired rows alike: who leaves a KB leaves at once."""
    await chunks.collection.delete_many(chunks.of(document_id), session=session)


async def delete_retired(chunks: Chunks, document_id: str, *, up_to_version: int) -> int:
    query = {**chunks.of(document_id), "until": {"$ne": None, "$lte": up_to_version}}
    return (await chunks.collection.delete_many(query)).deleted_count


async def nearest(
    chunks: Chunks,
    query: "Vector",
    *,
    limit: int,
    query_filter: Mapping[str, Any],
    exact: bool,
) -> dict[str, float]:
    """Ask the search index, which knows retired chunks too.

    Args:
        query_filter: compiled; `organization_id` and `kb_id` are added outside of it.
        exact: compare with every chunk instead of walking the graph; for small KBs.
    Returns:
        (1 + cos) / 2 by chunk id, best first; content must be read from the collection.
    """
    from kb_shared.embedding.vector import to_binary  # numpy

    stage: Row = {
        "index": VECTOR_INDEX,
        "path": "embedding",
        "queryVector": to_binary(query),
        "limit": limit,
        "filter": chunks.scope | ({"$and": [dict(query_filter)]} if query_filter else {}),
    }
    stage |= {"exact": True} if exact else {"numCandidates": min(10_000, max(20 * limit, 200))}
    hits = await chunks.collection.aggregate(
        [{"$vectorSearch": stage}, {"$project": {"_id": 1, "score": {"$meta": "vectorSearchScore"}}}],
        batchSize=_in_one_batch(limit),
    )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


async def mentioning(
    chunks: Chunks, words: str, *, limit: int, filters: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Ask the index of words, which knows retired chunks too.

    Args:
        filters: operators of `$search`, compiled; `organization_id` and `kb_id` are added to them.
    Returns:
        BM25 by chunk id, best first; content must be read from the collection.
    """
    scope = [{"equals": {"path": path, "value": value}} for path, value in chunks.scope.items()]
    compound = {
        "must": [{"text": {"path": list(TEXT_PATHS), "query": words}}],
        "filter": [*scope, *filters],
    }
    hits = await chunks.collection.aggregate(
        [
            {"$search": {"index": TEXT_INDEX, "compound": compound}},
            {"$limit": limit},
            {"$project": {"_id": 1, "score": {"$meta": "searchScore"}}},
        ],
        batchSize=_in_one_batch(limit),
    )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


def _in_one_batch(count: int) -> int:
    """The size of a batch that holds so many rows and is seen to be the last: a full one is asked for more."""
    return count + 1


async def any_in_text_index(chunks: Chunks, document_id: str, ids: Collection[str]) -> bool:
    """Whether the index of words knows one of these chunks of a document."""
    filters = [{"equals": {"path": path, "value": value}} for path, value in chunks.of(document_id).items()]
    hits = await chunks.collection.aggregate(
        [
            {"$search": {"index": TEXT_INDEX, "compound": {"filter": filters}}},
            {"$match": {"_id": {"$in": list(ids)}, **chunks.scope}},
            {"$limit": 1},
            {"$project": {"_id": 1}},
        ]
    )
    return bool(await hits.to_list())


async def read(
    chunks: Chunks,
    session: Session,
    ids: Collection[str],
    *,
    query_filter: Mapping[str, Any],
    with_vectors: Collection[str] = (),
) -> tuple[dict[str, Row], set[str]]:
    """What hits are as of the snapshot of `session`, in one query.

    Args:
        query_filter: compiled; what no longer matches it is left out.
        with_vectors: those of `ids` that come with `embedding`; the others have none.
    Returns:
        The rows by id, a retired one with `retired_for_ms` by the server's clock; and those of their documents that
        are in the KB.
    """
    match: Row = {"_id": {"$in": list(ids)}, **chunks.scope}
    if query_filter:
        match["$and"] = [dict(query_filter)]
    documents = {document_of(chunk_id) for chunk_id in ids}
    found = await chunks.collection.aggregate(
        [
            {"$match": match},
            {
                "$project": {
                    **_SHOWN,
                    "embedding": {"$cond": [{"$in": ["$_id", list(with_vectors)]}, "$embedding", "$$REMOVE"]},
                    "retired_for_ms": {"$subtract": ["$$NOW", "$retired_at"]},
                }
            },
            document_index.united_with(chunks.organization_id, chunks.kb_id, documents),
        ],
        session=session,
        batchSize=_in_one_batch(len(ids) + len(documents)),
    )
    rows: dict[str, Row] = {}
    indexed: set[str] = set()
    for row in await found.to_list():
        if "_id" in row:
            rows[row["_id"]] = row
        else:
            indexed.add(row["indexed_document"])
    return rows, indexed


async def embeddings(chunks: Chunks, session: Session, ids: Collection[str]) -> dict[str, bytes]:
    """The vectors of chunks by their ids, as they are stored, as of the snapshot of `session`."""
    rows = chunks.collection.find({"_id": {"$in": list(ids)}, **chunks.scope}, {"embedding": 1}, session=session)
    return {row["_id"]: row["embedding"] for row in await rows.to_list()}


async def read_stretches(chunks: Chunks, session: Session, stretches: Iterable[tuple[str, int, int]]) -> list[Row]:
    """The rows of documents from one chunk_index to another, both included; retired ones too."""
    ranges = [
        {"document_id": document_id, "chunk_index": {"$gte": first, "$lte": last}}
        for document_id, first, last in stretches
    ]
    rows = chunks.collection.find({**chunks.scope, "$or": ranges}, _SHOWN, session=session)
    return await rows.sort([("document_id", ASCENDING), ("chunk_index", ASCENDING)]).to_list()


def visible(rows: Iterable[Row]) -> list[Row]:
    """Of the hits of one document, as `read` gives them, those that may be shown together.

    The live ones; if none is live, those of the newest version among the hits retired less than ten seconds ago.
    """
    rows = list(rows)
    live = [row for row in rows if row["until"] is None]
    if live:
        return live
    limit_ms = SHOWN_AFTER_RETIREMENT / timedelta(milliseconds=1)
    lately = [row for row in rows if row["retired_for_ms"] < limit_ms]
    if not lately:
        return []
    version = max(row["until"] for row in lately)
    return [row for row in lately if row["since"] <= version <= row["until"]]


def of_the_same_versions(rows: Iterable[Row], shown: Iterable[Row]) -> list[Row]:
    """Of some rows, those that belong to the versions of which `shown`, as `visible` gave them, are a part."""
    retired_at_version: dict[str, int | None] = {}
    for row in shown:
        document_id, until = row["document_id"], row["until"]
        known = retired_at_version.get(document_id)
        retired_at_version[document_id] = until if known is None or until is None else max(known, until)
    return [
        row
        for row in rows
        if row["document_id"] in retired_at_version and _belongs(row, retired_at_version[row["document_id"]])
    ]


def _belongs(row: Row, version: int | None) -> bool:
    """Whether a row is live, for None, or else was retired as a part of `version`."""
    if version is None or row["until"] is None:
        # A live row may have moved since that version.
        return version is None and row["until"] is None
    return bool(row["since"] <= version <= row["until"])


async def page_of_document(
    chunks: Chunks, session: Session, document_id: str, *, skip: int, limit: int
) -> tuple[list[Row], int]:
    """Some of the live chunks of a document in their order, without vectors, and how many there are in all."""
    query = {**chunks.of(document_id), "until": None}
    rows = chunks.collection.find(query, {"embedding": 0}, session=session).sort("chunk_index", ASCENDING)
    page = await rows.skip(skip).limit(limit).to_list()
    return page, await chunks.collection.count_documents(query, session=session)


async def of_document(chunks: Chunks, document_id: str) -> AsyncIterator[Row]:
    """The live chunks of a document in their order, without vectors."""
    query = {**chunks.of(document_id), "until": None}
    async for row in chunks.collection.find(query, {"embedding": 0}).sort("chunk_index", ASCENDING):
        yield row
