"""Rows of a KB as indexing leaves them, written at once."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from bson.binary import Binary

from kb_shared.mongo import document_index, documents, embedding_cache, index_jobs, kb_slots, knowledge_bases, vectors
from kb_shared.mongo.chunks_digest import chunks_digest, vectors_digest
from kb_shared.mongo.database import Database, in_transaction
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange, TagsFacet, TextFacet
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.schema import create_indexes
from kb_shared.mongo.vector import to_binary
from kb_shared.text.text_normalization import CURRENT

CHUNKS_PER_DOCUMENT: Final = 20
DRIFTED_SHARE: Final = 0.01
_BATCH: Final = 500
_TEXT: Final = "A sentence of a chunk, repeated so that the chunk has a usual length. " * 4
_NOW: Final = datetime(2026, 1, 31, tzinfo=UTC)
_NEXT_YEAR: Final = datetime.now(UTC) + timedelta(days=365)

KB: Final = KnowledgeBase(
    kb_id="0123456789abcdef01234567",
    organization_id="benchmark",
    name="Benchmark",
    description="",
    tag_ids=("tag",),
    tags_version=1,
    chunker_type="recursive",
    chunk_size=256,
    chunk_overlap=0,
    embedding_model="hash-16",
    embedding_dimensions=16,
    max_chunks_per_document=2_000,
    status=Status.ACTIVE,
    status_reason=None,
    vector_collection=knowledge_bases.build_collection_name("0123456789abcdef01234567"),
    created_at=_NOW,
    updated_at=_NOW,
    created_by="benchmark",
    updated_by="benchmark",
    text_normalization=CURRENT,
)


def _with_dimensions(dimensions: int) -> KnowledgeBase:
    """Return the KB with vectors of so many dimensions: others than those of the KB count as drift."""
    return replace(KB, embedding_model=f"hash-{dimensions}", embedding_dimensions=dimensions)


def _space_of(kb: KnowledgeBase) -> VectorSpace:
    return VectorSpace(kb.organization_id, "fingerprint", kb.embedding_model, kb.embedding_dimensions)


async def fill(database: Database, *, documents: int, dimensions: int) -> None:
    """Write a KB with that many documents, without drift."""
    await create_indexes(database, _COLLECTIONS)
    await vectors.create_indexes(database[KB.vector_collection])

    kb = _with_dimensions(dimensions)

    async def create_kb(session: Any) -> None:
        await knowledge_bases.insert(database, session, kb)
        await kb_slots.create(database, session, kb.key, tags_version=kb.tags_version)

    await in_transaction(database, create_kb)
    vector = to_binary(np.ones(dimensions, dtype=np.float32))
    for first in range(0, documents, _BATCH):
        await _write(database, kb, range(first, min(first + _BATCH, documents)), vector)
    await _count(database)


_COLLECTIONS: Final = (
    (document_index.NAME, document_index.INDEXES),
    (documents.NAME, documents.INDEXES),
    (embedding_cache.NAME, embedding_cache.INDEXES),
    (index_jobs.NAME, index_jobs.INDEXES),
    (kb_slots.NAME, kb_slots.INDEXES),
    (knowledge_bases.NAME, knowledge_bases.INDEXES),
)


async def _write(database: Database, kb: KnowledgeBase, numbers: range, vector: Binary) -> None:
    known = [_document(number) for number in numbers]
    event = AppliedEvent("event", "document.ocr_completed.v1", 1, "", _NOW)
    await documents.write_all(database, [DocumentChange(document, event) for document in known])
    # As if they had changed long ago: an incremental pass looks at none of them.
    await database[documents.NAME].update_many({"changed_at": {"$gt": _NOW}}, {"$set": {"changed_at": _NOW}})
    await database[document_index.NAME].insert_many([_indexed(kb, document, vector) for document in known])
    chunks = [chunk for document in known for chunk in _chunks(document.document_id, vector)]
    await database[KB.vector_collection].insert_many(chunks, ordered=False)
    space = _space_of(kb)
    cached = [
        {"_id": space.key(chunk["chunk_hash"]), "scope": space.scope, "embedding": vector, "expires_at": _NEXT_YEAR}
        for chunk in chunks
    ]
    await database[embedding_cache.NAME].insert_many(cached, ordered=False)


def _document(number: int) -> Document:
    text = TextFacet(1, "digest", f"text-{number}", f"{number}.pdf", _NOW)
    return Document(KB.organization_id, f"document-{number:07}", text=text, tags=TagsFacet(1, "digest", KB.tag_ids))


def _indexed(kb: KnowledgeBase, document: Document, vector: Binary) -> dict[str, Any]:
    assert document.text is not None
    return {
        "_id": document_index.row_id(kb_id=KB.kb_id, document_id=document.document_id),
        "organization_id": KB.organization_id,
        "kb_id": KB.kb_id,
        "document_id": document.document_id,
        "version": 1,
        "chunk_count": CHUNKS_PER_DOCUMENT,
        "chunks_digest": chunks_digest({chunk_id: n for n, chunk_id in _chunk_ids(document.document_id)}),
        "vectors_digest": vectors_digest([vector] * CHUNKS_PER_DOCUMENT),
        "vector_space": _space_of(kb).to_row(),
        "text_revision": 1,
        "content_digest": document.text.text_id,
        "snapshot_digest": documents.chunk_metadata_digest(document),
        "config_hash": kb.config_hash,
        "document_name": document.text.name,
        "indexed_at": _NOW,
    }


def _chunk_ids(document_id: str) -> Iterator[tuple[int, str]]:
    return ((n, f"{document_id}:{n:024x}:0") for n in range(CHUNKS_PER_DOCUMENT))


def _chunks(document_id: str, vector: Binary) -> Iterator[dict[str, Any]]:
    for n, chunk_id in _chunk_ids(document_id):
        yield {
            "_id": chunk_id,
            "organization_id": KB.organization_id,
            "kb_id": KB.kb_id,
            "document_id": document_id,
            "chunk_index": n,
            "chunk_hash": hashlib.sha256(chunk_id.encode()).hexdigest(),
            "chunk_text": _TEXT,
            "embedding": vector,
            "since": 1,
            "until": None,
        }


async def _count(database: Database) -> None:
    """Set the counters of the slots as swaps would have."""
    counts: dict[str, int] = {}
    async for row in database[document_index.NAME].find({}, {"document_id": 1}):
        slot = kb_slots.row_id(kb_id=KB.kb_id, document_id=row["document_id"])
        counts[slot] = counts.get(slot, 0) + 1
    for slot, number in counts.items():
        fields = {"documents": number, "chunks": number * CHUNKS_PER_DOCUMENT, "writes": number}
        await database[kb_slots.NAME].update_one({"_id": slot}, {"$set": fields})


async def add_drift(database: Database, *, documents: int) -> int:
    """Plant drift in 1 % of the documents: a missing chunk, another configuration. Return their number."""
    drifted = [f"document-{number:07}" for number in range(0, documents, round(1 / DRIFTED_SHARE))]
    incomplete, wrong = drifted[::2], drifted[1::2]
    await database[KB.vector_collection].delete_many({"document_id": {"$in": incomplete}, "chunk_index": 3})
    await database[document_index.NAME].update_many(
        {"document_id": {"$in": wrong}}, {"$set": {"config_hash": "of another chunker"}}
    )
    return len(drifted)
