"""`missing_embedding`: the embedding cache lacks the vector of a live chunk."""

from collections.abc import Sequence

from kb_reconciler.drift.kinds import Comparison, DocumentDrift, RepairTools
from kb_reconciler.drift.sync import request_sync_with_force
from kb_reconciler.drift.vector_soundness import is_sound
from kb_shared.mongo import document_index, embedding_cache, vectors
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot


async def _repair(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    """Put the vectors of the chunks into the cache, free of charge; have damaged documents indexed again."""
    damaged = [i for i in document_ids if not await _restore_document(tools.database, kb, i)]
    if damaged:
        await request_sync_with_force(tools, kb, damaged)
    return len(document_ids)


async def _restore_document(database: Database, kb: KnowledgeBase, document_id: str) -> bool:
    """Put what can be trusted of a document into the cache; return whether all of it could."""
    key = MembershipKey(kb.organization_id, kb.kb_id, document_id)
    # The row names the space of the vectors: both are read from one snapshot.
    async with current_snapshot(database) as snapshot:
        row = await document_index.find(database, key, session=snapshot)
        chunks = await vectors.find_live(
            vectors.chunks_of(database, kb), snapshot, document_id, fields=[*vectors.CONTENT_FIELDS, "embedding"]
        )
    if row is None or row.vector_space is None:
        return True
    trusted = [(chunk["chunk_hash"], chunk["embedding"]) for chunk in chunks if _can_be_trusted(chunk, kb)]
    await embedding_cache.restore(database, row.vector_space, dict(trusted).items())
    return len(trusted) == len(chunks)


def _can_be_trusted(chunk: Row, kb: KnowledgeBase) -> bool:
    return vectors.has_content_of_id(chunk, kb.text_normalization) and is_sound(
        chunk.get("embedding"), dimensions=kb.embedding_dimensions
    )


MISSING_EMBEDDING = DocumentDrift(
    "missing_embedding", Comparison.VECTORS, condition=None, repair=_repair, opens_jobs=False
)
