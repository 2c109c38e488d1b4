"""Advances each KB through its life cycle: `creating -> building -> indexing -> active`, and `deleting` to removal.

A KB in `error` returns to `building` by itself once none of its search indexes is failed. Search indexes are also
updated later, for new filter keys, and rebuilt on request. The status is stored and each step can be repeated: after a
crash, the next replica that gets the lease of the KB continues.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_api.detect_dimensions import DimensionDetection
from kb_api.source import SOURCE
from kb_contracts.outcomes import KnowledgeBaseDeleted
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import SearchUnavailable, TransientError
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import (
    backfills,
    chunk_collections,
    chunk_indexes,
    document_index,
    index_jobs,
    kb_slots,
    knowledge_bases,
    leases,
)
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.knowledge_bases import UNKNOWN_DIMENSIONS, IndexRebuild, KnowledgeBase, Status
from kb_shared.mongo.majority import majority_reads
from kb_shared.observability import metrics, spans, tracing

LEASE: Final = timedelta(seconds=30)
AT_ONCE: Final = 8
CHECK_AGAIN_AFTER: Final = timedelta(seconds=60)
INDEX_FAILED: Final = "A search index can't be built; ask your operator to look at the search nodes."
SEARCH_MISSING: Final = "This deployment's MongoDB has no Atlas search; the knowledge base waits until it has."

_log = structlog.get_logger()

Step = Callable[[Database, KnowledgeBase], Coroutine[Any, Any, bool]]
"""Function that takes one step; returns True if the KB has advanced, False if it has to wait."""


class LifeCycle:
    """Runs in every replica of kb-api."""

    def __init__(self, database: Database, *, interval_s: float, detection: DimensionDetection | None = None) -> None:
        """Prepare it. Without `detection`, KBs of unknown dimensions wait."""
        self.signal = WorkSignal()
        """Starts the next round now."""
        self._database = database
        self._pause = PollPause(self.signal, shortest_s=interval_s)
        self._owner = str(uuid4())
        self._detection = detection

    def wake(self) -> None:
        """Start the next round now."""
        self.signal.wake()

    async def run(self, stop: asyncio.Event) -> None:
        """Take steps until `stop`, at once when woken, and every `interval_s` while a KB has a next step."""
        stopping = asyncio.create_task(self._wake_at(stop))
        try:
            while not stop.is_set():
                found = await self.advance_all()
                if not stop.is_set():
                    await self._pause.after_poll(found=found, poll_took_s=0)
        finally:
            stopping.cancel()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.wake()

    async def advance_all(self) -> bool:
        """Take the steps that are possible now; return whether a KB has a next step."""
        try:
            kbs = await knowledge_bases.find_in_transition(self._database)
        except PyMongoError as error:
            _log.warning("life_cycle.interrupted", error=type(error).__name__)
            return True
        at_once = asyncio.Semaphore(AT_ONCE)
        await run_all_or_cancel(self._try_to_advance(kb, at_once) for kb in kbs)
        return bool(kbs)

    async def _try_to_advance(self, kb: KnowledgeBase, at_once: asyncio.Semaphore) -> None:
        async with at_once:
            try:
                await self._advance(kb)
            except (PyMongoError, TransientError) as error:
                # Others may succeed; this KB is tried again in the next round.
                _log.warning("knowledge_base.step_failed", kb_id=kb.kb_id, step=kb.status, error=type(error).__name__)

    async def _advance(self, kb: KnowledgeBase) -> None:
        """Take all steps that are possible now."""
        lease = f"kb/{kb.kb_id}"
        if not await leases.acquire(self._database, lease, owner=self._owner, length=LEASE):
            return
        try:
            while (current := await _find(self._database, kb)) and (step := self._find_step(current)):
                if not await step(self._database, current):
                    break
        except SearchUnavailable:
            await _show_that_search_is_missing(self._database, kb)
            raise
        finally:
            await leases.release(self._database, lease, owner=self._owner)

    def _find_step(self, kb: KnowledgeBase) -> Step | None:
        if kb.status is Status.CREATING and kb.embedding_dimensions == UNKNOWN_DIMENSIONS:
            return None if self._detection is None else self._detection.detect
        return step_of(kb)


async def _show_that_search_is_missing(database: Database, kb: KnowledgeBase) -> None:
    if kb.status in (Status.CREATING, Status.BUILDING) and kb.status_reason != SEARCH_MISSING:
        await _set_status(database, kb, kb.status, reason=SEARCH_MISSING)


async def _find(database: Database, kb: KnowledgeBase) -> KnowledgeBase | None:
    """Read the KB with majority read concern: a step based on a write that is rolled back could delete live data."""
    async with majority_reads(database) as majority:
        return await knowledge_bases.find(majority, kb.key)


async def _create(database: Database, kb: KnowledgeBase) -> bool:
    await chunk_collections.create(database, kb)
    current = await _find(database, kb)
    if current is None or current.status is Status.DELETING:
        # This step took so long that another replica got the lease and deleted the KB. No later step would drop this.
        await chunk_collections.drop(database, kb.vector_collection)
        return False
    return await _set_status(database, kb, Status.BUILDING)


async def _watch_indexes(database: Database, kb: KnowledgeBase) -> bool:
    match await chunk_indexes.read_state(database[kb.vector_collection], kb):
        case IndexState.READY:
            return await _set_status(database, kb, Status.INDEXING)
        case IndexState.FAILED:
            return await _set_status(database, kb, Status.ERROR, reason=INDEX_FAILED)
        case IndexState.MISSING:
            await _set_status(database, kb, Status.CREATING)
            return False
        case IndexState.BUILDING:
            return False


async def _check_again(database: Database, kb: KnowledgeBase) -> bool:
    """Check a failed KB again: the operator may have fixed an index, or dropped it so that it is built again."""
    if await chunk_indexes.read_state(database[kb.vector_collection], kb) is IndexState.FAILED:
        await knowledge_bases.postpone_check(database, kb, after=CHECK_AGAIN_AFTER)
        return False
    return await _set_status(database, kb, Status.BUILDING)


async def _begin_rebuild(database: Database, kb: KnowledgeBase) -> bool:
    """Drop the search indexes that failed. The others answer until their successors are built."""
    # Once for a request: one that fails again is an error.
    await chunk_indexes.drop_failed(database[kb.vector_collection], kb)
    if kb.status is Status.ERROR:
        await _set_status(database, kb, Status.BUILDING)
    return await knowledge_bases.begin_index_rebuild(database, kb)


async def _update_indexes(database: Database, kb: KnowledgeBase) -> bool:
    """Update the search indexes, for new filter keys or a rebuild. The old ones answer until then."""
    match await chunk_indexes.read_state(database[kb.vector_collection], kb):
        case IndexState.READY:
            return await knowledge_bases.set_indexes_built(database, kb)
        case IndexState.FAILED:
            return await _set_status(database, kb, Status.ERROR, reason=INDEX_FAILED)
        case IndexState.MISSING:
            # Only the indexes: if the collection is missing, the KB is being deleted.
            await chunk_indexes.ensure(database[kb.vector_collection], kb)
    return False


async def _watch_documents(database: Database, kb: KnowledgeBase) -> bool:
    """Set the KB active when no job requested by a scan is open. Later requests by events do not count."""

    async def activate_if_done(session: MongoSession) -> bool:
        # One snapshot and a write to the row of the KB, which the start of a scan writes, too.
        scanned_at = await backfills.find_last_end(database, session, kb.key)
        if scanned_at is None:
            return False
        if await index_jobs.is_any_open(database, session, kb.key, requested_by=scanned_at):
            return False
        return await knowledge_bases.set_status(database, kb, Status.ACTIVE, only_from=Status.INDEXING, session=session)

    active = await in_transaction(database, activate_if_done)
    if active:
        _log.info("knowledge_base.status_changed", kb_id=kb.kb_id, status=Status.ACTIVE)
    return active


async def _delete(database: Database, kb: KnowledgeBase) -> bool:
    """Delete everything of the KB, its row last. Its KB slots block swaps, so running work can't write to it."""
    await chunk_collections.drop(database, kb.vector_collection)
    await document_index.delete_of_kb(database, kb.key)
    await index_jobs.delete_of_kb(database, kb.key)
    await backfills.delete_of_kb(database, kb.key)

    async def delete_rows(session: MongoSession) -> None:
        await kb_slots.delete(database, session, kb.key)
        await knowledge_bases.delete(database, session, kb.key)
        outcome = KnowledgeBaseDeleted(organization_id=kb.organization_id, kb_id=kb.kb_id)
        await announce(database, session, Announcement(outcome, seq=kb.tags_version + 1), source=SOURCE)

    with tracing.trace(spans.DELETE_KB, {"kb.organization_id": kb.organization_id, "kb.kb_id": kb.kb_id}):
        await in_transaction(database, delete_rows)
        metrics.forget_knowledge_base(kb.kb_id)
        _log.info("knowledge_base.deleted", kb_id=kb.kb_id)
    return True


STEPS: Final[Mapping[Status, Step]] = {
    Status.CREATING: _create,
    Status.BUILDING: _watch_indexes,
    Status.INDEXING: _watch_documents,
    Status.ERROR: _check_again,
    Status.DELETING: _delete,
}


def step_of(kb: KnowledgeBase) -> Step | None:
    """Return the next step of a KB; None if there is nothing to do."""
    if kb.index_rebuild is IndexRebuild.REQUESTED and kb.status in (Status.INDEXING, Status.ACTIVE, Status.ERROR):
        return _begin_rebuild
    if (kb.filters_building or kb.index_rebuild) and kb.status in (Status.INDEXING, Status.ACTIVE):
        return _update_indexes
    return STEPS.get(kb.status)


async def _set_status(database: Database, kb: KnowledgeBase, status: Status, *, reason: str | None = None) -> bool:
    changed = await knowledge_bases.set_status(database, kb, status, only_from=kb.status, reason=reason)
    if changed:
        _log.info("knowledge_base.status_changed", kb_id=kb.kb_id, status=status)
    return True
