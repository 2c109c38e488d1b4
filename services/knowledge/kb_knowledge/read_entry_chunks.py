"""Reads the chunks of an entry in the KB of the entries."""

from collections.abc import Sequence
from dataclasses import dataclass

from kb_shared.mongo import knowledge_bases, knowledge_entries, vectors
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.knowledge_entries import EntryKey
from kb_shared.mongo.vectors import ListedChunk


@dataclass(frozen=True, slots=True)
class EntryChunks:
    chunks: Sequence[ListedChunk]
    total_count: int
    embedding_model: str


async def read_entry_chunks(database: Database, key: EntryKey, *, skip: int, limit: int) -> EntryChunks:
    """Return a page of chunks, all of one version of the entry. Raises NotFound."""
    await knowledge_entries.get(database, key)
    kb = await knowledge_bases.find_knowledge(database, key.organization_id)
    if kb is None:
        return EntryChunks((), 0, "")

    async def read(session: MongoSession) -> tuple[list[ListedChunk], int]:
        chunks = vectors.chunks_of(database, kb)
        return await vectors.find_page_of_document(chunks, session, key.document.document_id, skip=skip, limit=limit)

    found, total_count = await in_transaction(database, read)
    return EntryChunks(found, total_count, kb.embedding_model)
