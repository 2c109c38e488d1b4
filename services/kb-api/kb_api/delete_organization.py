"""Deletes an organization with all its data, in steps that can be repeated, while the system works.

The steps: revoke its API keys but the one that asked, delete its KBs, send what waits in the outbox, delete its rows,
and last its keys. After that, it is swept a few more times: what was in work may still have been written.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_api import organization_deletions
from kb_api.delete_knowledge_base import delete_knowledge_base
from kb_api.life_cycle import LifeCycle
from kb_api.organization_deletions import (
    ROWS_OF_ORGANIZATIONS,
    DeletionState,
    OrganizationDeletion,
)
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import NotFound, TransientError
from kb_shared.failpoints import reach
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import (
    api_keys,
    document_texts,
    kb_slots,
    knowledge_bases,
    leases,
    outbox,
)
from kb_shared.mongo.database import Database, MongoSession, in_transaction

LEASE: Final = timedelta(seconds=60)
SWEEP_EVERY: Final = timedelta(minutes=1)
SWEEP_FOR: Final = timedelta(minutes=10)
"""Time after the end in which rows are removed that work in progress has still written."""

_WRITTEN_BY_QUESTIONS: Final = "rate_limits"
"""Collection that requests about the progress write to: a caller that asks often must not delay the end."""

_log = structlog.get_logger()


async def request_deletion(database: Database, caller: Caller) -> OrganizationDeletion:
    """Begin to delete the caller's organization; no change if that has begun already."""

    async def store(session: MongoSession) -> OrganizationDeletion:
        return await organization_deletions.request(database, session, caller.organization_id, by=caller.key_id)

    return await commit_change(database, store)


class OrganizationDeletions:
    """Carries deletions out. Runs in every replica of kb-api."""

    def __init__(self, database: Database, life_cycle: LifeCycle, *, interval_s: float) -> None:
        self.signal = WorkSignal()
        """Starts the next round now."""
        self._database = database
        self._life_cycle = life_cycle
        self._pause = PollPause(self.signal, shortest_s=interval_s)
        self._owner = str(uuid4())

    async def run(self, stop: asyncio.Event) -> None:
        """Advance deletions until `stop`."""
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
        self.signal.wake()

    async def advance_all(self) -> bool:
        """Take the steps that are possible now; return whether there is a deletion that goes on."""
        try:
            due = await organization_deletions.find_due(self._database)
            for deletion in due:
                await self._advance(deletion)
        except (PyMongoError, TransientError) as error:
            _log.warning("organization.deletion_interrupted", error=type(error).__name__)
            return True
        return bool(due)

    async def _advance(self, deletion: OrganizationDeletion) -> None:
        lease = f"organization/{deletion.organization_id}"
        if not await leases.acquire(self._database, lease, owner=self._owner, length=LEASE):
            return
        try:
            if deletion.state is DeletionState.RUNNING:
                await self._delete(deletion)
            else:
                await self._sweep_again(deletion)
        finally:
            await leases.release(self._database, lease, owner=self._owner)

    async def _delete(self, deletion: OrganizationDeletion) -> None:
        organization_id = deletion.organization_id
        await api_keys.revoke_others(self._database, organization_id, but=deletion.requested_by)
        await reach("organization_deletion.after_keys")
        if await self._delete_knowledge_bases(deletion):
            await organization_deletions.note(self._database, organization_id, step="knowledge_bases")
            return
        await reach("organization_deletion.after_knowledge_bases")
        if await outbox.is_any_unsent(self._database, organization_id):
            # Others learn from these messages that the KBs are deleted.
            await organization_deletions.note(self._database, organization_id, step="messages")
            return
        if await self._sweep(organization_id, step="rows"):
            # Something may have been written behind the sweep.
            return
        await reach("organization_deletion.before_finish")
        await in_transaction(self._database, lambda session: self._finish(session, organization_id))
        _log.info("organization.deleted", organization_id=organization_id)

    async def _delete_knowledge_bases(self, deletion: OrganizationDeletion) -> bool:
        """Delete the KBs; return whether some are not gone yet."""
        organization_id = deletion.organization_id
        caller = Caller(organization_id, deletion.requested_by, frozenset())
        for kb in await knowledge_bases.find_of_organization(self._database, organization_id):
            # Another request may have deleted it.
            with suppress(NotFound):
                await delete_knowledge_base(
                    self._database, caller, kb_id=kb.kb_id, life_cycle=self._life_cycle, with_entries=True
                )
        return await knowledge_bases.is_any_left(self._database, organization_id)

    async def _sweep(self, organization_id: str, *, step: str) -> int:
        """Delete what is there of an organization without KBs; return the number of rows that work has written."""
        deleted: Counter[str] = Counter()
        for rows in ROWS_OF_ORGANIZATIONS:
            result = await self._database[rows.collection].delete_many(rows.match(organization_id))
            deleted[rows.collection] += result.deleted_count
            await reach("organization_deletion.after_rows")
        # Rows that indexers have written to a KB while it was deleted.
        deleted[kb_slots.NAME] += await kb_slots.delete_of_organization(self._database, organization_id)
        deleted["text_files"] += await document_texts.delete_files_of_organization(self._database, organization_id)
        deleted["spu_ledger"] += await organization_deletions.move_charges(self._database, organization_id)
        await organization_deletions.note(self._database, organization_id, step=step, deleted=deleted)
        return deleted.total() - deleted[_WRITTEN_BY_QUESTIONS]

    async def _finish(self, session: MongoSession, organization_id: str) -> None:
        await api_keys.delete_of_organization(self._database, session, organization_id)
        again_at = datetime.now(UTC) + SWEEP_EVERY
        await organization_deletions.finish(self._database, session, organization_id, again_at=again_at)

    async def _sweep_again(self, deletion: OrganizationDeletion) -> None:
        await self._sweep(deletion.organization_id, step="done")
        finished_at = deletion.finished_at or datetime.now(UTC)
        goes_on = datetime.now(UTC) - finished_at < SWEEP_FOR
        await organization_deletions.schedule(
            self._database, deletion.organization_id, after=SWEEP_EVERY if goes_on else None
        )
