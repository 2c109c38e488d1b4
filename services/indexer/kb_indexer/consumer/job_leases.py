"""Claims the jobs that this process works on, and extends their leases in one task for all of them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import SyncDocument
from kb_indexer.consumer.load import Load
from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.keyed_locks import KeyedLocks
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJob

log = structlog.get_logger()


@dataclass(slots=True)
class _Held:
    job: IndexJob
    since: float
    until: float
    """Time on the monotonic clock at which the lease expires: a little before it does by the server's clock."""
    is_swapped: bool = False


class LeaseLost(Exception):
    """Another process works on the job now."""


class JobLeases:
    """Claims jobs for this process. Leases avoid double work and cost; correctness rests on the fences of a swap."""

    def __init__(self, database: Database, *, length: timedelta, load: Load) -> None:
        self._database = database
        self._length = length
        self._load = load
        self._owner = str(uuid4())
        self._held: dict[str, _Held] = {}
        self._locks = KeyedLocks()
        self._claimed = BatchLoader(self._claim)

    @asynccontextmanager
    async def hold(self, command: SyncDocument) -> AsyncIterator[IndexJob | None]:
        """Claim the job of `command`; None if it is done already or another process is at work on it.

        If this process is at work on the job already, for a command of the other lane, it waits until that work has
        ended. A command that asks for something newer would be lost otherwise, until it is published again after
        `UNCLAIMED_GRACE`.
        """
        key = index_jobs.row_id(kb_id=command.kb_id, document_id=command.document_id)
        async with self._locks.lock(key):
            asked_at = monotonic()
            job = await self._claim_or_release(command)
            if job is None:
                yield None
                return
            self._held[key] = _Held(job, monotonic(), until=asked_at + self._length.total_seconds())
            try:
                yield job
            except asyncio.CancelledError:
                # The partition went to another replica: let it, or the sweeper, begin at once.
                await asyncio.shield(self._release(job))
                raise
            finally:
                del self._held[key]

    async def _claim_or_release(self, command: SyncDocument) -> IndexJob | None:
        claiming = asyncio.ensure_future(self._claimed(command))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The batch is claimed all the same; without this, the job would be blocked until its lease expires.
            job = await claiming
            if job is not None:
                await self._release(job)
            raise

    async def _claim(self, commands: Sequence[SyncDocument]) -> Mapping[SyncDocument, IndexJob]:
        return await index_jobs.claim_all(self._database, commands, owner=self._owner, lease=self._length)

    async def _release(self, job: IndexJob) -> None:
        try:
            await index_jobs.give_back(self._database, job, owner=self._owner, uncount_attempt=True)
        except PyMongoError:
            return  # the lease expires

    async def close_job(self, job: IndexJob, *, finished: bool) -> None:
        """End the work on `job`. If it was requested again meanwhile (not `finished`), it is due at once."""
        if not finished and job.lease_owner is not None:
            await index_jobs.give_back(self._database, job, owner=job.lease_owner)

    async def run(self) -> None:
        """Extend the leases of jobs that take long, until cancelled."""
        while True:
            await asyncio.sleep(self._extension_interval.total_seconds())
            try:
                await self.extend(held_for=self._extension_interval)
            except PyMongoError as error:
                log.warning("lease.extension_failed", error=type(error).__name__)

    async def extend(self, *, held_for: timedelta) -> None:
        """Extend the leases that have been held for so long, except those of jobs that are being swapped.

        Most jobs end before their first extension. During a swap an extension would conflict with its transaction.
        """
        asked_at = monotonic()
        latest = asked_at - held_for.total_seconds()
        old = [held for held in self._held.values() if held.since <= latest and not held.is_swapped]
        if any(held.until < asked_at for held in old):
            self._load.lease_ran_out()
        # If one was lost, `for_swap` checks each of them by itself.
        if await self._extend([held.job for held in old]) == len(old):
            for held in old:
                held.until = asked_at + self._length.total_seconds()

    @asynccontextmanager
    async def for_swap(self, job: IndexJob) -> AsyncIterator[None]:
        """Swap in the block: an old lease is extended first, and none is extended during the swap.

        The transaction of the swap writes the row of the job, so no other process can claim it meanwhile.

        Raises:
            LeaseLost: another process has taken the job.
        """
        held = self._held[index_jobs.row_id(kb_id=job.kb_id, document_id=job.document_id)]
        asked_at = monotonic()
        if asked_at > held.until:
            self._load.lease_ran_out()
        if asked_at >= held.until - (self._length - self._extension_interval).total_seconds():
            if not await self._extend([job]):
                raise LeaseLost
            held.until = asked_at + self._length.total_seconds()
        held.is_swapped = True
        try:
            yield
        finally:
            held.is_swapped = False

    @property
    def _extension_interval(self) -> timedelta:
        return self._length / 6

    async def _extend(self, jobs: Sequence[IndexJob]) -> int:
        return await index_jobs.extend(self._database, jobs, owner=self._owner, lease=self._length)
