"""The collections that this service uses, with their indexes, which it creates at its start.

The collections of chunks are not among them: each gets its indexes with its KB.
"""

from typing import Final

from kb_api import organization_deletions, pushed_folders
from kb_api.outcome_events import event_log
from kb_api.webhooks import deliveries, webhook_rows
from kb_shared.mongo import (
    agents,
    api_keys,
    audit_log,
    backfills,
    circuits,
    dead_letters,
    document_index,
    document_texts,
    documents,
    embedding_cache,
    idempotency_keys,
    index_jobs,
    kb_slots,
    knowledge_bases,
    llm_providers,
    outbox,
    provider_pauses,
    query_log,
    rate_limits,
    reconcile_passes,
    reconcile_plans,
    spu_ledger,
    tags,
)
from kb_shared.mongo.schema import CollectionIndexes

COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (agents.NAME, agents.INDEXES),
    (api_keys.NAME, api_keys.INDEXES),
    (audit_log.NAME, audit_log.INDEXES),
    (backfills.NAME, backfills.INDEXES),
    (circuits.NAME, circuits.INDEXES),
    (dead_letters.NAME, dead_letters.INDEXES),
    (dead_letters.BODIES, dead_letters.BODY_INDEXES),
    (document_index.NAME, document_index.INDEXES),
    (document_texts.NAME, document_texts.INDEXES),
    (documents.NAME, documents.INDEXES),
    (embedding_cache.NAME, embedding_cache.INDEXES),
    (event_log.NAME, event_log.INDEXES),
    (idempotency_keys.NAME, idempotency_keys.INDEXES),
    (index_jobs.NAME, index_jobs.INDEXES),
    (kb_slots.NAME, kb_slots.INDEXES),
    (knowledge_bases.NAME, knowledge_bases.INDEXES),
    (llm_providers.NAME, llm_providers.INDEXES),
    (organization_deletions.NAME, organization_deletions.INDEXES),
    (outbox.NAME, outbox.INDEXES),
    (provider_pauses.NAME, provider_pauses.INDEXES),
    (pushed_folders.NAME, pushed_folders.INDEXES),
    (query_log.NAME, query_log.INDEXES),
    (rate_limits.NAME, rate_limits.INDEXES),
    (reconcile_passes.NAME, reconcile_passes.INDEXES),
    (reconcile_plans.NAME, reconcile_plans.INDEXES),
    (reconcile_plans.REPAIRS, reconcile_plans.REPAIR_INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (tags.NAME, tags.INDEXES),
    (webhook_rows.NAME, webhook_rows.INDEXES),
    (deliveries.NAME, deliveries.INDEXES),
)
