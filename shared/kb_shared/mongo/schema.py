"""Every collection's indexes, created or checked at start."""

from kb_shared.mongo import (
    agents,
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
    prompts,
    query_log,
    rate_limits,
    runs,
    spu_ledger,
    tags,
)
from kb_shared.mongo.database import Database, long_commands

_COLLECTIONS = (
    (agents.NAME, agents.INDEXES),
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
    (prompts.NAME, prompts.INDEXES),
    (query_log.NAME, query_log.INDEXES),
    (rate_limits.NAME, rate_limits.INDEXES),
    (runs.NAME, runs.INDEXES),
    (runs.THREADS, runs.THREAD_INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (tags.NAME, tags.INDEXES),
)


async def ensure(database: Database) -> None:
    """Create what is missing; creating an index that is there changes nothing."""
    with long_commands():
        for name, indexes in _COLLECTIONS:
            await database[name].create_indexes(indexes)
