"""The indexes of collections, created or checked at start."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from pymongo import IndexModel

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
    rate_limits,
    spu_ledger,
    tags,
)
from kb_shared.mongo.database import Database, long_commands

CollectionIndexes: TypeAlias = tuple[str, Sequence[IndexModel]]
"""A collection's name and its indexes."""

_COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
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
    (rate_limits.NAME, rate_limits.INDEXES),
    (spu_ledger.NAME, spu_ledger.INDEXES),
    (tags.NAME, tags.INDEXES),
)


async def ensure(database: Database) -> None:
    """Create missing indexes of the shared collections; every service calls this at its start."""
    await create_indexes(database, _COLLECTIONS)


async def create_indexes(database: Database, collections: Iterable[CollectionIndexes]) -> None:
    """Create missing indexes; existing ones are not changed."""
    with long_commands():
        for name, indexes in collections:
            await database[name].create_indexes(indexes)
