"""Publishes the commands of jobs whose time has come: retries, expired leases, and what a crash left unpublished."""

import asyncio
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import Reason
from kb_indexer.consumer.backlog import Backlog
from kb_shared.concurrency.poll_pause import poll_pause_s
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.kafka.positions import OnLost
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.observability.metrics import INDEXING_QUEUE_DEPTH

_BATCH: Final = 200
_IDLE_PAUSE_S: Final = 5.0
"""Pause while no job is open. A new job is due only when it was not published within `PUBLISH_GRACE`."""
_BULK_REASONS: Final = frozenset({Reason.BACKFILL, Reason.RETRY, Reason.RECONCILE})

log = structlog.get_logger()


class Sweeper:
    """One per replica; each due job is given to one of them."""

    def __init__(self, database: Database, requests: IndexRequests, *, backlog: Backlog, interval_s: float) -> None:
        self._database = database
        self._requests = requests
        self._backlog = backlog
        self._interval_s = interval_s

    async def run(self) -> None:
        """Sweep for ever; cancel to stop."""
        while True:
            began = monotonic()
            try:
                await self._requests.note_published()
                swept = await self.sweep()
                depth = await index_jobs.count_all_open(self._database)
                INDEXING_QUEUE_DEPTH.set(depth)
                is_idle = depth == 0
            except (PyMongoError, TransientError) as error:
                log.warning("sweep.failed", error=type(error).__name__)
                swept, is_idle = 0, False
            if swept < _BATCH:
                interval_s = max(self._interval_s, _IDLE_PAUSE_S) if is_idle else self._interval_s
                await asyncio.sleep(poll_pause_s(interval_s, poll_took_s=monotonic() - began))

    async def sweep(self) -> int:
        """Publish one batch of what is due and return how many that were."""
        due = await index_jobs.take_due(self._database, limit=_BATCH)
        if due:
            await reach("sweeper.after_lease")
        await self._publish(due)
        await index_jobs.note_published(self._database, {job.key: job.publication for job in due if job.publication})
        if due:
            log.info("jobs.swept", jobs=len(due))
        return len(due)

    async def _publish(self, jobs: list[IndexJob]) -> None:
        lanes: dict[bool, list[IndexJob]] = {True: [], False: []}
        queued: list[IndexJob] = []
        for job in jobs:
            if await self._backlog.is_long(job.key.knowledge_base):
                queued.append(job)
            else:
                lanes[job.reason in _BULK_REASONS].append(job)
        await index_jobs.queue_all(self._database, queued)
        for bulk, published in lanes.items():
            if published:
                await self._requests.publish_jobs(published, bulk=bulk)


def send_lost_commands_again(database: Database) -> OnLost:
    """Return the callback for commands that Kafka has lost: it makes all open jobs due, so that they are sent again."""

    async def make_due(topic: str) -> None:
        with mongo_errors():
            jobs = await index_jobs.make_all_due(database)
        log.warning("commands.sent_again", topic=topic, jobs=jobs)

    return make_due
