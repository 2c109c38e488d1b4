"""Runs backfills: publishes commands for the documents of a KB, a few at a time.

The queue stays in MongoDB: at most 200 commands of a KB and 400 of an organization are outstanding. So a large KB
delays no other one.
"""

from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.membership.drift import find_drift
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import backfills, document_index, documents, index_jobs, knowledge_bases
from kb_shared.mongo.backfills import Backfill, Kind, Phase
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT, LANE_LIMITS, IndexJobState
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.majority import majority_reads
from kb_shared.observability import spans, tracing

_STRETCH: Final = 100
_PAUSE_S: Final = 0.2

_STATES: Final = {
    Phase.RESTING: (IndexJobState.FAILED, IndexJobState.WAITING_FOR_TEXT),
    Phase.FAILED: (IndexJobState.FAILED,),
    Phase.PAUSED: (IndexJobState.PAUSED,),
}
"""States of the jobs of a phase. The cause for which they wait may be gone, so each is requested."""

log = structlog.get_logger()


class BackfillRunner:
    """One per replica; each scan is worked on by one of them at a time."""

    def __init__(
        self, database: Database, requests: IndexRequests, *, lease: timedelta, signal: WorkSignal | None = None
    ) -> None:
        self._database = database
        self._requests = requests
        self._lease = lease
        self._owner = str(uuid4())
        self._pause = PollPause(signal or WorkSignal(), shortest_s=_PAUSE_S)
        self._are_running = False

    async def run(self) -> None:
        """Work on scans for ever, taking turns among them; cancel to stop."""
        while True:
            began = monotonic()
            try:
                moved = await self.turn()
            except (PyMongoError, TransientError) as error:
                log.warning("backfill.interrupted", error=type(error).__name__)
                moved, self._are_running = False, True
            if not moved:
                await self._pause.after_poll(found=self._are_running, poll_took_s=monotonic() - began)

    async def turn(self) -> bool:
        """Work on one stretch of each scan; return False if none could advance."""
        moved = False
        seen: list[str] = []
        while (
            scan := await backfills.claim(self._database, owner=self._owner, lease=self._lease, but=seen)
        ) is not None:
            seen.append(scan.job_id)
            try:
                moved |= await self._stretch(scan)
            except (PyMongoError, TransientError) as error:
                # Other backfills go on; this one continues from its cursor in the next turn.
                log.warning("backfill.interrupted", kb_id=scan.kb_id, error=type(error).__name__)
        self._are_running = bool(seen)
        return moved

    async def _stretch(self, scan: Backfill) -> bool:
        # After `take`, which is a write: what these find is no older than the scan, and a majority has it.
        async with majority_reads(self._database) as majority:
            kb = await knowledge_bases.find(majority, scan.knowledge_base)
        if kb is None or kb.status is Status.DELETING:
            await backfills.finish(self._database, scan, owner=self._owner)
            return True
        if kb.status not in (Status.INDEXING, Status.ACTIVE):
            return False
        outstanding = await index_jobs.count_open(self._database, scan.knowledge_base, limit=BACKLOG_LIMIT)
        in_lanes = await index_jobs.count_in_lanes(
            self._database, scan.organization_id, limit=LANE_LIMITS.of_organization
        )
        allowance = min(BACKLOG_LIMIT - outstanding, LANE_LIMITS.of_organization - in_lanes, _STRETCH)
        if allowance <= 0:
            return False
        with tracing.trace(spans.BACKFILL, _span_attributes(scan), incoming=scan.traceparent) as span:
            requested = await self._request_jobs(scan, kb, limit=allowance)
            span.set({"kb.documents": requested})
        return True

    async def _request_jobs(self, scan: Backfill, kb: KnowledgeBase, *, limit: int) -> int:
        """Request jobs for the next documents, or begin the next phase without any; return how many were requested."""
        async with majority_reads(self._database) as majority:
            found = await _candidates(majority, scan, kb, limit=limit)
        if not found:
            await self._next_phase(scan)
            return 0
        everyone = scan.force or scan.phase in _STATES
        async with majority_reads(self._database) as majority:
            wanted = found if everyone else list(await find_drift(majority, kb, found))
        await self._requests.request(
            [
                SyncDocument(
                    organization_id=kb.organization_id,
                    kb_id=kb.kb_id,
                    document_id=document_id,
                    reason=Reason.RETRY if scan.kind is Kind.RETRY_FAILED else Reason.BACKFILL,
                    force=scan.force,
                )
                for document_id in wanted
            ],
            bulk=True,
            backfill_id=scan.job_id,
        )
        advanced = await backfills.advance(
            self._database, scan, owner=self._owner, phase=scan.phase, cursor=found[-1], queued=len(wanted)
        )
        if not advanced:
            await self._withdraw_if_cancelled(scan)
        return len(wanted)

    async def _withdraw_if_cancelled(self, scan: Backfill) -> None:
        async with majority_reads(self._database) as majority:
            now = await backfills.find(majority, scan.knowledge_base, scan.job_id)
        if now is not None and now.state is backfills.BackfillState.CANCELLED:
            await index_jobs.unforce(self._database, scan.knowledge_base, backfill_id=scan.job_id)

    async def _next_phase(self, scan: Backfill) -> None:
        if scan.next_phase is not None:
            await backfills.advance(
                self._database, scan, owner=self._owner, phase=scan.next_phase, cursor=None, queued=0
            )
            return
        await backfills.finish(self._database, scan, owner=self._owner)
        log.info("backfill.finished", kb_id=scan.kb_id, kind=scan.kind, queued=scan.queued)


def _span_attributes(scan: Backfill) -> tracing.Attributes:
    return {
        "kb.organization_id": scan.organization_id,
        "kb.kb_id": scan.kb_id,
        "kb.backfill.kind": scan.kind,
        "kb.backfill.phase": scan.phase,
    }


async def _candidates(database: Database, scan: Backfill, kb: KnowledgeBase, *, limit: int) -> list[str]:
    """Return the next documents of the scan's phase."""
    match scan.phase:
        case Phase.DOCUMENTS:
            tagged = documents.iterate_with_tags(
                database, scan.organization_id, tag_ids=kb.tag_ids, after=scan.cursor, limit=limit
            )
            return [document.document_id async for document in tagged]
        case Phase.INDEXED:
            rows = document_index.iterate_kb(database, scan.knowledge_base, after=scan.cursor, limit=limit)
            return [row.document_id async for row in rows]
        case _:
            return await index_jobs.find_in_states(
                database, scan.knowledge_base, _STATES[scan.phase], after=scan.cursor, limit=limit
            )
