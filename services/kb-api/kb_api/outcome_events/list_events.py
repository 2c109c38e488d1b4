"""Gives events of the outbox their positions in `GET /events`. One process at a time does it for all organizations.

The positions are stored in one transaction with the mark that the events are listed. So whatever crashes, each event is
listed once. The lease only spares processes conflicts with each other.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_api.outcome_events import event_log
from kb_api.outcome_events.event_log import ListedEvent, NewEvent
from kb_api.webhooks.queue_deliveries import queue_deliveries
from kb_contracts.cloudevents import decode
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import KB_EVENTS
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.mongo import leases, outbox
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.outbox import UnlistedEvent
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import EVENTS_LISTED

LEASE_NAME: Final = "events"
_LEASE: Final = timedelta(seconds=15)
_RENEW_S: Final = 5.0
_ASK_EVERY_S: Final = 1.0
"""Pause of a process between its attempts to get the lease, however many changes wake it."""
_BATCH: Final = 200
_PAUSE_S: Final = 0.2
"""Pause between two polls. Events of this time are listed together, with as many commands as a single one."""

log = structlog.get_logger()


class EventLister:
    """Lists the events of all organizations while it holds the lease; one per process."""

    def __init__(self, database: Database) -> None:
        self.signal = WorkSignal()
        self._database = database
        self._owner = str(uuid4())
        self._held_until = 0.0
        self._ask_again_at = 0.0
        self._pause = PollPause(self.signal, shortest_s=_PAUSE_S)
        self._limit = LogLimit()

    async def run(self, stop: asyncio.Event) -> None:
        """List until `stop`, then release the lease so that another process continues at once."""
        stopping = asyncio.create_task(self._wake_at(stop))
        try:
            while not stop.is_set():
                began = monotonic()
                found = await self._list_some()
                if found < _BATCH and not stop.is_set():
                    await self._pause.after_poll(found=found > 0, poll_took_s=monotonic() - began)
        finally:
            stopping.cancel()
            await self._release()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.signal.wake()

    async def _list_some(self) -> int:
        try:
            return await self.list_once() if await self._hold_lease() else 0
        except (PyMongoError, TransientError) as error:
            reason = type(error).__name__
            if (left_out := self._limit.admit(reason)) is not None:
                log.warning("events.listing_interrupted", error=reason, left_out=left_out)
            return 0

    async def _hold_lease(self) -> bool:
        """Return whether this process holds the lease; renew it if that is due."""
        if monotonic() < self._held_until - _LEASE.total_seconds() + _RENEW_S:
            return True
        asked_at = monotonic()
        if asked_at < self._ask_again_at:
            return False
        if not await leases.acquire(self._database, LEASE_NAME, owner=self._owner, length=_LEASE):
            self._ask_again_at = asked_at + _ASK_EVERY_S
            return False
        self._held_until = asked_at + _LEASE.total_seconds()
        return True

    async def list_once(self) -> int:
        """List one batch of events; return how many were found."""
        found = await outbox.find_unlisted(self._database, limit=_BATCH)
        if found:
            events = [event for each in found if (event := _read(each)) is not None]

            async def store(session: MongoSession) -> Sequence[ListedEvent]:
                if await outbox.mark_listed(self._database, session, [each.id for each in found]) < len(found):
                    # Another process had the lease meanwhile.
                    raise TransientError("some of the events are listed already")
                await reach("events.before_positions")
                listed = await event_log.append(self._database, session, events) if events else []
                await queue_deliveries(self._database, session, listed)
                await reach("events.before_commit")
                return listed

            listed = await in_transaction(self._database, store)
            await reach("events.after_commit")
            EVENTS_LISTED.inc(len(listed))
        return len(found)

    async def _release(self) -> None:
        try:
            await leases.release(self._database, LEASE_NAME, owner=self._owner)
        except (PyMongoError, TransientError):
            return  # it expires


def _read(unlisted: UnlistedEvent) -> NewEvent | None:
    try:
        envelope, payload = decode(unlisted.value, KB_EVENTS)
    except Rejected as error:
        # Of a later version, after an update that was taken back. It is in Kafka.
        log.warning("events.unreadable", message_id=str(unlisted.id), reason=error.reason)
        return None
    organization_id = envelope.data.get("organization_id")
    if organization_id is None:
        return None
    return NewEvent(organization_id, payload.TYPE, envelope.data.get("kb_id"), unlisted.value.decode())
