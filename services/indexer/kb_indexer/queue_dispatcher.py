"""Publishes the commands of queued jobs: organizations take turns, and in each its KBs.

At most 200 jobs of a KB and 400 of an organization are in the lanes of Kafka (`LaneLimits`).
"""

from collections.abc import Sequence
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import LANE_LIMITS, IndexJob, LaneLimits
from kb_shared.mongo.keys import KnowledgeBaseKey

_BATCH: Final = 50
"""Number of jobs of a KB in one turn: the KBs of an organization that is near its limit share what is left."""
_PAUSE_S: Final = 0.2

log = structlog.get_logger()


class QueueDispatcher:
    """One per replica; each queued job is given to one of them."""

    def __init__(
        self,
        database: Database,
        requests: IndexRequests,
        *,
        limits: LaneLimits = LANE_LIMITS,
        signal: WorkSignal | None = None,
    ) -> None:
        self._database = database
        self._requests = requests
        self._limits = limits
        self._pause = PollPause(signal or WorkSignal(), shortest_s=_PAUSE_S)
        self._are_queued = False

    async def run(self) -> None:
        """Dispatch for ever; cancel to stop."""
        while True:
            began = monotonic()
            try:
                dispatched = await self.dispatch()
            except (PyMongoError, TransientError) as error:
                log.warning("dispatch.failed", error=type(error).__name__)
                dispatched, self._are_queued = 0, True
            if not dispatched:
                await self._pause.after_poll(found=self._are_queued, poll_took_s=monotonic() - began)

    async def dispatch(self) -> int:
        """Give each organization with queued jobs one turn, and return the number of published commands."""
        dispatched = 0
        organizations = await index_jobs.find_queued_organizations(self._database)
        self._are_queued = bool(organizations)
        for organization_id in organizations:
            for kb in await index_jobs.find_queued_kbs(self._database, organization_id):
                dispatched += await self._dispatch_kb(kb)
        return dispatched

    async def _dispatch_kb(self, kb: KnowledgeBaseKey) -> int:
        allowance = min(_BATCH, await self._count_free(kb))
        if allowance <= 0:
            return 0
        jobs = await index_jobs.take_queued(self._database, kb, limit=allowance)
        await self._requests.publish_jobs(jobs, bulk=True)
        await self._note_published(jobs)
        return len(jobs)

    async def _count_free(self, kb: KnowledgeBaseKey) -> int:
        """Count the jobs of `kb` that may be added to the lanes now."""
        of_organization = await index_jobs.count_in_lanes(
            self._database, kb.organization_id, limit=self._limits.of_organization
        )
        of_kb = await index_jobs.count_in_lanes(
            self._database, kb.organization_id, kb_id=kb.kb_id, limit=self._limits.of_kb
        )
        return min(self._limits.of_organization - of_organization, self._limits.of_kb - of_kb)

    async def _note_published(self, jobs: Sequence[IndexJob]) -> None:
        await index_jobs.note_published(self._database, {job.key: job.publication for job in jobs if job.publication})
