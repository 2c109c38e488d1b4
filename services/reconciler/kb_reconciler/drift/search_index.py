"""`search_index`: a search index of an active KB is missing, has another definition, has failed, or is behind."""

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.drift.index_lease import index_lease
from kb_reconciler.drift.kinds import KnowledgeBaseDrift
from kb_shared.errors import TransientError
from kb_shared.mongo import chunk_indexes, document_index, knowledge_bases
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

MAX_LAG: Final = timedelta(minutes=5)
"""Time within which a chunk has to be in the text index."""

log = structlog.get_logger()


async def _detect(database: Database, kb: KnowledgeBase) -> bool:
    return await _needs_repair(database, kb) or await find_lag(database, kb) > 0


async def _needs_repair(database: Database, kb: KnowledgeBase) -> bool:
    state = await chunk_indexes.read_state(database[kb.vector_collection], kb)
    return state in (IndexState.MISSING, IndexState.FAILED)


async def find_lag(database: Database, kb: KnowledgeBase) -> int:
    """Return how many chunks the text index lacks at least, of those that were indexed before `MAX_LAG`.

    All of them, if it does not answer queries. The vector index can't be counted.
    """
    # In this order: a chunk that is indexed again in between counts in the index only.
    expected = await document_index.count_chunks_indexed(database, kb.key, until=datetime.now(UTC) - MAX_LAG)
    return max(0, expected - await chunk_indexes.count_in_text_index(database[kb.vector_collection], kb))


async def _repair(database: Database, kb: KnowledgeBase) -> bool:
    """Create or update the indexes; only report one that is behind, because MongoDB continues to build it."""
    if await _needs_repair(database, kb):
        return await _restore_indexes(database, kb)
    log.warning("search_index.behind", kb_id=kb.kb_id, chunks=await find_lag(database, kb))
    return False


async def _restore_indexes(database: Database, kb: KnowledgeBase) -> bool:
    """Create, update or drop indexes. One that failed is dropped; the next pass finds it missing and creates it."""
    async with index_lease(database, kb.kb_id) as held:
        current = await knowledge_bases.find(database, kb.key)
        if not held or current is None or current.status is not Status.ACTIVE:
            return False
        collection = database[current.vector_collection]
        if await chunk_indexes.read_state(collection, current) is IndexState.FAILED:
            await chunk_indexes.drop_failed(collection, current)
        else:
            await chunk_indexes.ensure(collection, current)
    return True


SEARCH_INDEX = KnowledgeBaseDrift("search_index", _detect, _repair)


async def repair_search_indexes(database: Database) -> int:
    """Look at all active KBs, and return in how many of them indexes were repaired. They are built during searches."""
    repaired = 0
    for kb in await knowledge_bases.find_active(database):
        try:
            if await _needs_repair(database, kb) and await _restore_indexes(database, kb):
                log.info("drift.repaired", kind=SEARCH_INDEX.name, kb_id=kb.kb_id)
                repaired += 1
        except (PyMongoError, TransientError) as error:
            # The other KBs may succeed.
            log.warning("search_indexes.repair_failed", kb_id=kb.kb_id, error=type(error).__name__)
    return repaired
