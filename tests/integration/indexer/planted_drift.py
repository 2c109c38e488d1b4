"""Plants each kind of drift in a KB that holds the documents of TEXTS."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kb_contracts.cloudevents import Payload
from kb_shared import failpoints
from kb_shared.mongo import document_index, embedding_cache, kb_slots
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import Replica, Tenant, paragraph, text_of

TEXTS = {f"d{n}": text_of(3 * n, 3 * n + 1, 3 * n + 2) for n in range(1, 6)}

Plant = Callable[[Tenant, Replica, KnowledgeBase], Awaitable[dict[str, str]]]
"""Function that plants drift of one kind in `d1`, or beside it, and returns what the KB must hold after the repair."""


async def lose(indexer: Replica, event: Payload) -> None:
    """Store an event as the projection does, and crash before it reaches any KB."""

    async def crash() -> None:
        raise InterruptedError

    async with failpoints.during("fan_out.after_projection", crash):
        with pytest.raises(InterruptedError):
            await indexer.publish(event)


async def plant_missing(tenant: Tenant, indexer: Replica, _: KnowledgeBase) -> dict[str, str]:
    await lose(indexer, tenant.ocr("new", paragraph(99)))
    return TEXTS | {"new": paragraph(99)}


async def plant_stale(tenant: Tenant, indexer: Replica, _: KnowledgeBase) -> dict[str, str]:
    await lose(indexer, tenant.deleted("d1", revision=9))
    return {document_id: text for document_id, text in TEXTS.items() if document_id != "d1"}


async def plant_wrong_config(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    await set_row(tenant, kb, config_hash="of another chunker")
    return TEXTS


async def plant_stale_text(tenant: Tenant, indexer: Replica, _: KnowledgeBase) -> dict[str, str]:
    await lose(indexer, tenant.ocr("d1", paragraph(99), revision=9))
    return TEXTS | {"d1": paragraph(99)}


async def plant_stale_snapshot(tenant: Tenant, indexer: Replica, _: KnowledgeBase) -> dict[str, str]:
    await lose(indexer, tenant.described("d1", {"n": 1}, revision=9))
    return TEXTS


async def plant_incomplete(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    await tenant.database[kb.vector_collection].delete_one({"document_id": "d1", "chunk_index": 1})
    return TEXTS


async def plant_orphan_vectors(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    await copy_chunks(tenant, kb, to="ghost")
    return TEXTS


async def plant_wrong_totals(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    slots = tenant.database[kb_slots.NAME]
    await slots.update_one({"_id": f"{kb.kb_id}/3"}, {"$inc": {"documents": 2, "chunks": -7}})
    # This one was never written by a swap.
    await slots.update_one({"kb_id": kb.kb_id, "writes": None}, {"$inc": {"documents": 1}})
    return TEXTS


async def plant_missing_embedding(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    await forget_embeddings(tenant, kb)
    return TEXTS


async def plant_bad_vector(tenant: Tenant, _: Replica, kb: KnowledgeBase) -> dict[str, str]:
    await tenant.database[kb.vector_collection].update_one(
        {"document_id": "d1", "chunk_index": 1}, {"$set": {"embedding": None}}
    )
    return TEXTS


PLANTS: dict[str, Plant] = {
    "missing_embedding": plant_missing_embedding,
    "bad_vector": plant_bad_vector,
    "missing": plant_missing,
    "stale": plant_stale,
    "wrong_config": plant_wrong_config,
    "stale_text": plant_stale_text,
    "stale_snapshot": plant_stale_snapshot,
    "incomplete": plant_incomplete,
    "orphan_vectors": plant_orphan_vectors,
    "wrong_totals": plant_wrong_totals,
}


async def set_row(tenant: Tenant, kb: KnowledgeBase, document_id: str = "d1", **fields: Any) -> None:
    row_id = document_index.row_id(kb_id=kb.kb_id, document_id=document_id)
    await tenant.database[document_index.NAME].update_one({"_id": row_id}, {"$set": fields})


async def copy_chunks(tenant: Tenant, kb: KnowledgeBase, *, to: str, of: str = "d1") -> None:
    """Give a document that is not in the KB the chunks of one that is."""
    collection = tenant.database[kb.vector_collection]
    rows = await collection.find({"document_id": of}).to_list()
    renamed = [row | {"document_id": to, "_id": row["_id"].replace(of, to)} for row in rows]
    await collection.insert_many(renamed)


async def forget_embeddings(tenant: Tenant, kb: KnowledgeBase, *, of: str = "d1") -> int:
    """Delete the vectors of a document from the embedding cache; return their number."""
    chunks = await tenant.database[kb.vector_collection].find({"document_id": of}).to_list()
    hashes = [chunk["chunk_hash"] for chunk in chunks]
    deleted = await tenant.database[embedding_cache.NAME].delete_many(
        {"scope": tenant.organization_id, "chunk_hash": {"$in": hashes}}
    )
    return deleted.deleted_count
