"""Gives KBs the search indexes that they lack: made before there was such an index, or dropped by somebody since."""

from datetime import timedelta
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.errors import TransientError
from kb_shared.mongo import chunk_indexes, knowledge_bases, leases
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

LEASE: Final = timedelta(seconds=30)

log = structlog.get_logger()


async def keep_indexes(database: Database, *, owner: str) -> int:
    """Go through all active KBs; returns how many got what they lacked. An index is built while searches go on."""
    repaired = 0
    for kb in await knowledge_bases.find_active(database):
        try:
            repaired += await _repair(database, kb, owner=owner)
        except (PyMongoError, TransientError) as error:
            # The others may fare better.
            log.warning("search_indexes.repair_failed", kb_id=kb.kb_id, error=type(error).__name__)
    return repaired


async def _repair(database: Database, kb: KnowledgeBase, *, owner: str) -> bool:
    if await chunk_indexes.read_state(database[kb.vector_collection], kb) is not IndexState.MISSING:
        return False
    # The lease of its life cycle, which changes indexes too, and drops them.
    lease = f"kb/{kb.kb_id}"
    if not await leases.acquire(database, lease, owner=owner, length=LEASE):
        return False
    try:
        current = await knowledge_bases.find(database, kb.key)
        if current is None or current.status is not Status.ACTIVE:
            return False
        await chunk_indexes.ensure(database[current.vector_collection], current)
    finally:
        await leases.release(database, lease, owner=owner)
    log.info("search_indexes.repaired", kb_id=kb.kb_id)
    return True
