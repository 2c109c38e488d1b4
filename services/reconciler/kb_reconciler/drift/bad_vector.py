"""`bad_vector`: the vector of a live chunk is unsound, or is not the one that was stored."""

from collections.abc import Sequence

from kb_reconciler.drift.kinds import HAS_ROW, Comparison, DocumentDrift, RepairTools
from kb_reconciler.drift.sync import request_sync_with_force
from kb_reconciler.drift.vector_soundness import is_sound
from kb_shared.mongo import document_index, embedding_cache, vectors
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot


def _condition(_: KnowledgeBase) -> Row:
    return {
        "$and": [
            HAS_ROW,
            {
                "$or": [
                    {"$gt": ["$chunks.unsound", 0]},
                    # Rows of older versions have no digest.
                    {
                        "$and": [
                            {"$in": [{"$type": "$row.vectors_digest"}, ["int", "long"]]},
                            {"$ne": ["$row.vectors_digest", {"$ifNull": ["$chunks.digest", 0]}]},
                        ]
                    },
                ]
            },
        ]
    }


async def _repair(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    """Have the documents indexed again with vectors of the cache. Those that the cache lacks are paid for."""
    for document_id in document_ids:
        await _discard_unsound(tools.database, kb, document_id)
    return await request_sync_with_force(tools, kb, document_ids)


async def _discard_unsound(database: Database, kb: KnowledgeBase, document_id: str) -> None:
    """Delete unsound vectors of the document from the cache: the indexer would store them once more."""
    key = MembershipKey(kb.organization_id, kb.kb_id, document_id)
    async with current_snapshot(database) as snapshot:
        row = await document_index.find(database, key, session=snapshot)
        chunks = await vectors.find_live(vectors.chunks_of(database, kb), snapshot, document_id, fields=["chunk_hash"])
    if row is None or row.vector_space is None:
        return
    space = row.vector_space
    keys = {space.key(chunk["chunk_hash"]) for chunk in chunks}
    cached = await embedding_cache.find_vectors(database, space.scope, keys)
    for cache_key, vector in cached.items():
        if not is_sound(vector, dimensions=kb.embedding_dimensions):
            await embedding_cache.delete(database, space.scope, cache_key, embedding=vector)


BAD_VECTOR = DocumentDrift("bad_vector", Comparison.VECTORS, _condition, repair=_repair)
