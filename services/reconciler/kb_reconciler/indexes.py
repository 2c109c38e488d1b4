"""The collections that this service uses, with their indexes, which it creates at its start.

The collections of chunks are not among them: each gets its indexes with its KB.
"""

from typing import Final

from kb_shared.mongo import (
    api_keys,
    backfills,
    circuits,
    dead_letters,
    document_index,
    document_texts,
    documents,
    embedding_cache,
    index_jobs,
    kb_slots,
    knowledge_bases,
    llm_providers,
    outbox,
    reconcile_passes,
    reconcile_plans,
    spu_ledger,
    tags,
)
from kb_shared.mongo.schema import CollectionIndexes

COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (api_keys.NAME, api_keys.INDEXES),
    (backfills.NAME, backfills.INDEXES),
    (circuits.NAME, circuits.INDEXES),
    (dead_letters.NAME, dead_letters.INDEXES),
    (dead_letters.BODIES, dead_letters.BODY_INDEXES),
    (document_index.NAME, document_index.INDEXES),
    (document_texts.NAME, document_texts.INDEXES),
    (documents.NAME, documents.INDEXES),
    (embedding_cache.NAME, embedding_cache.INDEXES),
    (index_jobs.NAME, index_jobs.INDEXES),
    (kb_slots.NAME, kb_slots.INDEXES),
    (knowledge_bases.NAME, knowledge_bases.INDEXES),
    (llm_providers.NAME, llm_providers.INDEXES),
    (outbox.NAME, outbox.INDEXES),
    (reconcile_passes.NAME, reconcile_passes.INDEXES),
    (reconcile_plans.NAME, reconcile_plans.INDEXES),
    (reconcile_plans.REPAIRS, reconcile_plans.REPAIR_INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (tags.NAME, tags.INDEXES),
)
