"""The leases of the jobs this process works on, kept alive by one task for all of them."""

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
    """When the lease runs out, on the monotonic clock: a little before it does by the server's."""
    is_swapped: bool = False


class LeaseLost(Exception):
    """Somebody else is at work on the job."""


class JobLeases:
    """Claims jobs for this process. A lease keeps others from paying for the same work; fences keep it right."""

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
        key = index_jobs.row_id(command.kb_id, command.document_id)
        async with self._locks.lock(key):
            asked_at = monotonic()
            job = await self._claim_or_let_go(command)
            if job is None:
                yield None
                return
            self._held[key] = _Held(job, monotonic(), until=asked_at + self._length.total_seconds())
            try:
                yield job
            except asyncio.CancelledError:
                # The partition went to another replica: let it, or the sweeper, begin at once.
                await asyncio.shield(self._let_go(job))
                raise
            finally:
                del self._held[key]

    async def _claim_or_let_go(self, command: SyncDocument) -> IndexJob | None:
        claiming = asyncio.ensure_future(self._claimed(command))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # What is asked for together is claimed all the same, and would be nobody's until the lease expires.
            job = await claiming
            if job is not None:
                await self._let_go(job)
            raise

    async def _claim(self, commands: Sequence[SyncDocument]) -> Mapping[SyncDocument, IndexJob]:
        return await index_jobs.claim_all(self._database, commands, owner=self._owner, lease=self._length)

    async def _let_go(self, job: IndexJob) -> None:
        try:
            await index_jobs.give_back(self._database, job, owner=self._owner, uncount_attempt=True)
        except PyMongoError:
            return  # the lease expires

    async def close_job(self, job: IndexJob, *, finished: bool) -> None:
        """End the work on `job`. If it was requested again meanwhile (not `finished`), it is due at once."""
        if not finished and job.lease_owner is not None:
            await index_jobs.give_back(self._database, job, owner=job.lease_owner)

    async def keep(self) -> None:
        """Extend what is worked on for long, for ever; cancel to stop."""
        while True:
            await asyncio.sleep(self._a_while.total_seconds())
            try:
                await self.extend(held_for=self._a_while)
            except PyMongoError as error:
                log.warning("lease.not_extended", error=type(error).__name__)

    async def extend(self, *, held_for: timedelta) -> None:
        """Extend the leases that have been held for so long, but those of jobs that are being swapped.

        Most jobs are done before: the transaction that ends a job would conflict with an extension, and begin again.
        """
        asked_at = monotonic()
        latest = asked_at - held_for.total_seconds()
        old = [held for held in self._held.values() if held.since <= latest and not held.is_swapped]
        if any(held.until < asked_at for held in old):
            self._load.lease_ran_out()
        # If one is gone, each is asked for by itself when it matters.
        if await self._extend([held.job for held in old]) == len(old):
            for held in old:
                held.until = asked_at + self._length.total_seconds()

    @asynccontextmanager
    async def for_swap(self, job: IndexJob) -> AsyncIterator[None]:
        """Swap within this: the lease was extended before if it is not new, and is left alone meanwhile.

        The transaction of the swap keeps everybody else from the job, however long it takes.

        Raises:
            LeaseLost: another has taken the job, and does it.
        """
        held = self._held[index_jobs.row_id(job.kb_id, job.document_id)]
        asked_at = monotonic()
        if asked_at > held.until:
            self._load.lease_ran_out()
        if asked_at >= held.until - (self._length - self._a_while).total_seconds():
            if not await self._extend([job]):
                raise LeaseLost
            held.until = asked_at + self._length.total_seconds()
        held.is_swapped = True
        try:
            yield
        finally:
            held.is_swapped = False

    @property
    def _a_while(self) -> timedelta:
        return self._length / 6

    async def _extend(self, jobs: Sequence[IndexJob]) -> int:
        return await index_jobs.extend(self._database, jobs, owner=self._owner, lease=self._length)
