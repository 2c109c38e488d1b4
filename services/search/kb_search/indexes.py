"""The collections that this service uses, with their indexes, which it creates at its start.

The collections of chunks are not among them: each gets its indexes with its KB.
"""

from typing import Final

from kb_search.store import prompts, runs
from kb_shared.mongo import (
    agents,
    api_keys,
    audit_log,
    circuits,
    citations,
    document_index,
    document_texts,
    documents,
    embedding_cache,
    entities,
    idempotency_keys,
    index_jobs,
    kb_slots,
    knowledge_bases,
    knowledge_entries,
    knowledge_graph,
    llm_providers,
    outbox,
    provider_pauses,
    query_log,
    rate_limits,
    spu_ledger,
)
from kb_shared.mongo.schema import CollectionIndexes

COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (agents.NAME, agents.INDEXES),
    (api_keys.NAME, api_keys.INDEXES),
    (audit_log.NAME, audit_log.INDEXES),
    (circuits.NAME, circuits.INDEXES),
    (citations.NAME, citations.INDEXES),
    (document_index.NAME, document_index.INDEXES),
    (document_texts.NAME, document_texts.INDEXES),
    (documents.NAME, documents.INDEXES),
    (embedding_cache.NAME, embedding_cache.INDEXES),
    (entities.NAME, entities.INDEXES),
    (idempotency_keys.NAME, idempotency_keys.INDEXES),
    (index_jobs.NAME, index_jobs.INDEXES),
    (kb_slots.NAME, kb_slots.INDEXES),
    (knowledge_bases.NAME, knowledge_bases.INDEXES),
    (knowledge_entries.NAME, knowledge_entries.INDEXES),
    (knowledge_entries.TOMBSTONES, knowledge_entries.TOMBSTONE_INDEXES),
    (knowledge_graph.NAME, knowledge_graph.INDEXES),
    (knowledge_graph.EDGES, knowledge_graph.EDGE_INDEXES),
    (llm_providers.NAME, llm_providers.INDEXES),
    (provider_pauses.NAME, provider_pauses.INDEXES),
    (outbox.NAME, outbox.INDEXES),
    (rate_limits.NAME, rate_limits.INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (prompts.NAME, prompts.INDEXES),
    (query_log.NAME, query_log.INDEXES),
    (runs.NAME, runs.INDEXES),
    (runs.THREADS, runs.THREAD_INDEXES),
)
