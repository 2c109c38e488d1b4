"""A KB filled through the same queries that a swap makes, without an indexer."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kb_local.model_server.hash_model import vector_of
from kb_shared.identifiers import new_kb_id
from kb_shared.mongo import chunk_indexes, document_index, index_queries, kb_slots, knowledge_bases, vectors
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, IndexState
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.vectors import ChunkMetadata, Chunks, EmbeddedChunk
from kb_shared.text import text_normalization
from kb_shared.text.metadata_pairs import metadata_pairs
from kb_shared.text.spellings import spelled_terms
from kb_shared.text.text_normalization import SPELLED
from tests.knowledge_bases import build_knowledge_base
from tests.waiting import until

DIMENSIONS = 64
MODEL = f"hash-{DIMENSIONS}"
JANUARY = datetime(2026, 1, 15, 12, tzinfo=UTC)


def relevance(query: str, text: str) -> float:
    """Compute the relevance that an answer must have, from the vectors of the hash model."""
    cosine = float(vector_of(query, dimensions=DIMENSIONS) @ vector_of(text, dimensions=DIMENSIONS))
    return (1 + cosine) / 2


@dataclass(frozen=True)
class DocumentToIndex:
    document_id: str
    texts: Sequence[str]
    name: str = "a.pdf"
    tag_ids: Sequence[str] = ()
    upload_date: datetime = JANUARY
    metadata: Mapping[str, Any] | None = None
    normalization: int = text_normalization.CURRENT

    def metadata_of_chunks(self) -> ChunkMetadata:
        metadata = self.metadata or {}
        return ChunkMetadata(self.name, tuple(self.tag_ids), self.upload_date, metadata, metadata_pairs(metadata))

    def chunks(self) -> list[EmbeddedChunk]:
        return [
            EmbeddedChunk(
                chunk_index=n,
                chunk_hash=_hash(text_normalization.for_model(text, self.normalization)),
                passage_hash=_hash(text),
                text=text,
                vector=vector_of(text_normalization.for_model(text, self.normalization), dimensions=DIMENSIONS),
                token_count=len(text.split()),
                start=0,
                end=len(text),
                page_start=n,
                page_end=n + 1,
                heading_path=("Title", f"Part {n}"),
                chunk_type="text",
                spellings=" ".join(spelled_terms("Title", text)) if self.normalization == SPELLED else None,
            )
            for n, text in enumerate(self.texts)
        ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Knowledge:
    """A KB and what a test does to it."""

    database: Database
    kb: KnowledgeBase

    @property
    def path(self) -> str:
        return f"/v0/orgs/{self.kb.organization_id}/knowledge-bases/{self.kb.kb_id}/search"

    @property
    def chunks(self) -> Chunks:
        return vectors.chunks_of(self.database, self.kb)

    async def index(self, document: DocumentToIndex, *, searchable: bool = True) -> None:
        """Swap the document in; by default wait until the search index has all of it."""
        await in_transaction(self.database, lambda session: self._swap(session, document))
        if searchable:
            await self.wait_until_found(document)

    async def _swap(self, session: MongoSession, document: DocumentToIndex) -> None:
        organization_id, kb_id = self.kb.organization_id, self.kb.kb_id
        version, _ = await document_index.begin_swap(
            self.database, session, MembershipKey(organization_id, kb_id, document.document_id)
        )
        stored = await vectors.find_rows(self.chunks, session, document.document_id)
        changes = vectors.plan_changes(
            scope=self.chunks.scope,
            document_id=document.document_id,
            chunks=document.chunks(),
            metadata=document.metadata_of_chunks(),
            version=version,
            before=stored,
        )
        await vectors.write(self.chunks, session, changes.writes)
        await kb_slots.fence_knowledge_base(
            self.database,
            session,
            MembershipKey(organization_id, kb_id, document.document_id),
            tags_version=self.kb.tags_version,
            documents=int(version == 1),
            chunks=len(changes.inserted) - changes.retired,
        )
        await document_index.finish_swap(
            self.database,
            session,
            IndexedDocument(
                organization_id=organization_id,
                kb_id=kb_id,
                document_id=document.document_id,
                version=version,
                chunk_count=len(document.texts),
                text_revision=version,
                content_digest="",
                chunk_metadata_digest="",
                config_hash="",
                document_name=document.name,
                indexed_at=JANUARY,
            ),
        )

    async def wait_until_found(self, document: DocumentToIndex) -> None:
        await until(lambda: self.is_found(document), what=f"all of {document.document_id!r} in the index")

    async def is_found(self, document: DocumentToIndex) -> bool:
        wanted = set(vectors.chunk_ids(document.document_id, document.chunks()))
        filters = {"document_name": document.name, "upload_date": document.upload_date}

        by_vector = await index_queries.query_vector_index(
            self.chunks,
            vector_of("x", dimensions=DIMENSIONS),
            limit=1000,
            query_filter={"document_id": document.document_id, **filters},
            exact=True,
        )
        return wanted <= by_vector.keys() and wanted <= await self._in_text_index(document)

    async def _in_text_index(self, document: DocumentToIndex) -> set[str]:
        filters = [
            {"equals": {"path": "document_id", "value": document.document_id}},
            {"equals": {"path": "document_name", "value": document.name}},
            {"equals": {"path": "upload_date", "value": document.upload_date}},
        ]
        search = {"$search": {"index": TEXT_INDEX, "compound": {"filter": filters}}}
        rows = await self.chunks.collection.aggregate([search, {"$limit": 1000}, {"$project": {"_id": 1}}])
        return {row["_id"] async for row in rows}

    async def set_status(self, status: Status) -> None:
        assert await knowledge_bases.set_status(self.database, self.kb, status, only_from=self.kb.status)

    async def delete(self) -> None:
        """As kb-api does in the end: nothing is left."""
        await self.chunks.collection.drop()
        await in_transaction(
            self.database,
            lambda session: knowledge_bases.delete(self.database, session, self.kb.key),
        )


async def create(
    database: Database, organization_id: str, *, status: Status = Status.ACTIVE, ready: bool = True, **fields: Any
) -> Knowledge:
    """Make an empty KB; by default wait until its indexes answer."""
    kb = build_knowledge_base(
        kb_id=new_kb_id(),
        organization_id=organization_id,
        tag_ids=("t1",),
        embedding_model=MODEL,
        embedding_dimensions=DIMENSIONS,
        status=status,
    )
    knowledge = Knowledge(database, replace(kb, **fields))

    async def insert(session: MongoSession) -> None:
        await knowledge_bases.insert(database, session, knowledge.kb)
        await kb_slots.create(database, session, knowledge.kb.key, tags_version=1)

    await in_transaction(database, insert)
    if "vector_collection" not in fields:
        collection = await database.create_collection(knowledge.kb.vector_collection)
        await collection.create_indexes(vectors.INDEXES)
        await chunk_indexes.ensure(collection, knowledge.kb)
    if ready:
        await until(knowledge_is_queryable(knowledge))
    return knowledge


def knowledge_is_queryable(knowledge: Knowledge) -> Any:
    async def queryable() -> bool:
        return await chunk_indexes.read_state(knowledge.chunks.collection, knowledge.kb) is IndexState.READY

    return queryable
