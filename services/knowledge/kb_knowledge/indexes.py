"""The collections that this service uses, with their indexes, which it creates at its start.

The collections of chunks are not among them: each gets its indexes with its KB.
"""

from typing import Final

from kb_knowledge.store import (
    check_ins,
    crawl_frontier,
    knowledge_sources,
    mcp_servers,
    source_files,
    source_items,
    source_runs,
)
from kb_shared.mongo import (
    api_keys,
    audit_log,
    backfills,
    circuits,
    citations,
    dead_letters,
    document_index,
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
    rate_limits,
    spu_ledger,
)
from kb_shared.mongo.schema import CollectionIndexes

COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (api_keys.NAME, api_keys.INDEXES),
    (audit_log.NAME, audit_log.INDEXES),
    (backfills.NAME, backfills.INDEXES),
    (check_ins.NAME, check_ins.INDEXES),
    (circuits.NAME, circuits.INDEXES),
    (citations.NAME, citations.INDEXES),
    (crawl_frontier.NAME, crawl_frontier.INDEXES),
    (dead_letters.NAME, dead_letters.INDEXES),
    (dead_letters.BODIES, dead_letters.BODY_INDEXES),
    (document_index.NAME, document_index.INDEXES),
    (embedding_cache.NAME, embedding_cache.INDEXES),
    (entities.NAME, entities.INDEXES),
    (knowledge_graph.NAME, knowledge_graph.INDEXES),
    (knowledge_graph.EDGES, knowledge_graph.EDGE_INDEXES),
    (idempotency_keys.NAME, idempotency_keys.INDEXES),
    (index_jobs.NAME, index_jobs.INDEXES),
    (kb_slots.NAME, kb_slots.INDEXES),
    (knowledge_bases.NAME, knowledge_bases.INDEXES),
    (knowledge_entries.NAME, knowledge_entries.INDEXES),
    (knowledge_entries.TOMBSTONES, knowledge_entries.TOMBSTONE_INDEXES),
    (knowledge_sources.NAME, knowledge_sources.INDEXES),
    (mcp_servers.NAME, mcp_servers.INDEXES),
    (llm_providers.NAME, llm_providers.INDEXES),
    (provider_pauses.NAME, provider_pauses.INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (outbox.NAME, outbox.INDEXES),
    (rate_limits.NAME, rate_limits.INDEXES),
    (source_files.FILES, source_files.FILE_INDEXES),
    (source_items.NAME, source_items.INDEXES),
    (source_runs.NAME, source_runs.INDEXES),
)
