"""Jobs that people start on the documents of a KB: index all again, or try again what failed."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from kb_api.services import Services
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.mongo import backfills, documents, index_jobs, knowledge_bases
from kb_shared.mongo.backfills import Backfill, BackfillState, Kind
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.observability import tracing

JobStatus = Literal["running", "done", "cancelled"]

CANCELLABLE: Final = frozenset({Kind.REINDEX, Kind.RETRY_FAILED})
"""Without the others a KB would not hold what it should."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come, in documents."""

    job: Backfill
    status: JobStatus
    total: int
    done: int
    """Number of documents of `total` that are indexed, removed or failed by now."""
    failed: int
    eta_s: float | None
    """None while nothing is done yet, and when it is over."""


@dataclass(frozen=True, slots=True)
class Start:
    job: Backfill | None
    """None: there is nothing to do."""
    is_new: bool


async def reindex(api: Services, caller: Caller, kb_id: str) -> Start:
    """Index every document again, for nothing where vectors were paid for; while such a job runs, that is the answer.

    Raises NotFound.
    """
    kb = await knowledge_bases.get(api.database, caller.organization_id, kb_id)
    total = await documents.count_with_tags(api.database, kb.organization_id, kb.tag_ids)
    return await _start(api, kb, Kind.REINDEX, total)


async def retry_failed(api: Services, caller: Caller, kb_id: str) -> Start:
    """Try every failed document again; while such a job runs, that is the answer.

    Raises NotFound.
    """
    kb = await knowledge_bases.get(api.database, caller.organization_id, kb_id)
    total = await index_jobs.count_failed(api.database, kb.organization_id, kb_id)
    return await _start(api, kb, Kind.RETRY_FAILED, total)


async def _start(api: Services, kb: KnowledgeBase, kind: Kind, total: int) -> Start:
    async def start(session: MongoSession) -> Start:
        current = await knowledge_bases.get(api.database, kb.organization_id, kb.kb_id, session)
        latest = await backfills.latest(api.database, session, kb.organization_id, kb.kb_id, kind)
        if latest is not None and await _covers(api, latest, session, failed=total):
            return Start(latest, is_new=False)
        if kind is Kind.RETRY_FAILED and not total:
            return Start(None, is_new=False)
        # The KB is active again when the job is over. And as both write its row, two who start the same job at once
        # follow one another.
        status = Status.INDEXING if current.status is Status.ACTIVE else current.status
        if await knowledge_bases.change(api.database, session, current, {"status": status}) is None:
            raise NotFound("knowledge base")
        job = await backfills.start(
            api.database,
            session,
            kb.organization_id,
            kb.kb_id,
            kind=kind,
            total=total,
            traceparent=tracing.current(),
        )
        return Start(job, is_new=True)

    started = await in_transaction(api.database, start)
    api.life_cycle.wake()
    return started


async def _covers(api: Services, job: Backfill, session: MongoSession, *, failed: int) -> bool:
    """Say whether `job` already does what is asked for."""
    if job.state is BackfillState.RUNNING:
        return True
    if job.state is BackfillState.CANCELLED or (job.kind is Kind.RETRY_FAILED and failed):
        return False
    undone, _ = await index_jobs.count_of_backfill(api.database, job.organization_id, job.kb_id, job.job_id, session)
    return undone > 0


async def progress(
    api: Services, caller: Caller, kb_id: str, job_id: str, *, session: MongoSession | None = None
) -> Progress:
    """Raises NotFound if there is no such KB, or no such job on it."""
    await knowledge_bases.get(api.database, caller.organization_id, kb_id, session)
    job = await backfills.find(api.database, caller.organization_id, kb_id, job_id, session)
    if job is None:
        raise NotFound("job")
    undone, failed = await index_jobs.count_of_backfill(api.database, job.organization_id, kb_id, job_id, session)
    done = max(0, job.queued - undone)
    total = max(job.total, job.queued) if job.state is BackfillState.RUNNING else job.queued
    status: JobStatus = "running" if job.state is BackfillState.RUNNING or undone else "done"
    if job.state is BackfillState.CANCELLED:
        status = "cancelled"
    elapsed_s = (datetime.now(UTC) - job.created_at).total_seconds()
    eta_s = round(elapsed_s / done * (total - done), 1) if status == "running" and done else None
    return Progress(job, status, total, done, failed, eta_s)


async def cancel(api: Services, caller: Caller, kb_id: str, job_id: str) -> Progress:
    """Let the job begin no more documents; those already begun are finished. One that is over stays as it is.

    Raises:
        NotFound: as `progress`.
        RequestError: 409 `job-not-cancellable`.
    """
    before = await progress(api, caller, kb_id, job_id)
    if before.job.kind not in CANCELLABLE:
        raise RequestError(
            409,
            "job-not-cancellable",
            "This job brings the knowledge base to what it should hold; pause the knowledge base to stop it.",
        )
    if before.status != "running":
        # In a transaction, whose commit confirms that a majority has it.
        return await in_transaction(api.database, lambda session: progress(api, caller, kb_id, job_id, session=session))
    await backfills.cancel(api.database, before.job)
    await index_jobs.unforce(api.database, before.job.organization_id, kb_id, backfill_id=job_id)
    return await progress(api, caller, kb_id, job_id)
