"""Jobs that people start on the documents of a KB: reindex all of them, or retry those that failed."""

from dataclasses import dataclass
from typing import Final

from kb_api.indexing_progress import count_all, measure_indexing
from kb_api.life_cycle import LifeCycle
from kb_contracts.api.jobs import JobStatus
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import backfills, documents, index_jobs, knowledge_bases
from kb_shared.mongo.backfills import Backfill, BackfillState, Kind
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.observability import tracing

CANCELLABLE: Final = frozenset({Kind.REINDEX, Kind.RETRY_FAILED})
"""Kinds that may be cancelled. Without the other kinds a KB would miss documents."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job, in documents."""

    job: Backfill
    status: JobStatus
    total: int
    done: int
    """Number of documents of `total` that are indexed, removed or failed by now."""
    failed: int
    eta_s: float | None
    """Estimated seconds until no document of the KB waits; None if nothing tells, and when the job is over."""


@dataclass(frozen=True, slots=True)
class JobStart:
    job: Backfill | None
    """Job that runs now; None if there is nothing to do."""
    is_new: bool


async def start_reindexing(database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle) -> JobStart:
    """Index every document again, at no cost where vectors are cached. Returns the running job if there is one.

    Raises NotFound.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    total = await documents.count_with_tags(database, kb.organization_id, tag_ids=kb.tag_ids)
    return await _start(database, kb, kind=Kind.REINDEX, total=total, life_cycle=life_cycle)


async def start_retrying(database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle) -> JobStart:
    """Retry every failed document. Returns the running job if there is one.

    Raises NotFound.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    total = await index_jobs.count_failed(database, kb.key)
    return await _start(database, kb, kind=Kind.RETRY_FAILED, total=total, life_cycle=life_cycle)


async def _start(database: Database, kb: KnowledgeBase, *, kind: Kind, total: int, life_cycle: LifeCycle) -> JobStart:
    async def start(session: MongoSession) -> JobStart:
        current = await knowledge_bases.get(database, kb.key, session=session)
        latest = await backfills.find_latest(database, session, kb.key, kind=kind)
        if latest is not None and await _covers(database, latest, session=session, failed=total):
            return JobStart(latest, is_new=False)
        if kind is Kind.RETRY_FAILED and not total:
            return JobStart(None, is_new=False)
        # The KB becomes active again when the job is over. Both of two concurrent starts write its row, so that the
        # second one sees the job of the first.
        status = Status.INDEXING if current.status is Status.ACTIVE else current.status
        if await knowledge_bases.change(database, session, current, fields={"status": status}) is None:
            raise NotFound("knowledge base")
        job = await backfills.start(database, session, kb.key, kind=kind, total=total, traceparent=tracing.current())
        return JobStart(job, is_new=True)

    started = await commit_change(database, start)
    life_cycle.wake()
    return started


async def _covers(database: Database, job: Backfill, *, session: MongoSession, failed: int) -> bool:
    """Return whether `job` already does the requested work."""
    if job.state is BackfillState.RUNNING:
        return True
    if job.state is BackfillState.CANCELLED or (job.kind is Kind.RETRY_FAILED and failed):
        return False
    undone, _ = await index_jobs.count_of_backfill(database, job.knowledge_base, job.job_id, session=session)
    return undone > 0


async def measure_progress(
    database: Database, caller: Caller, *, kb_id: str, job_id: str, session: MongoSession | None = None
) -> JobProgress:
    """Count how far a job has come. Raises NotFound if there is no such KB, or no such job on it."""
    await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id), session=session)
    job = await backfills.find(database, KnowledgeBaseKey(caller.organization_id, kb_id), job_id, session=session)
    if job is None:
        raise NotFound("job")
    return await _measure(database, job, session=session)


async def list_jobs(
    database: Database, caller: Caller, *, kb_id: str, before: str | None = None, skip: int, limit: int
) -> tuple[list[JobProgress], int]:
    """Return a page of the jobs of a KB with their progress, newest first, and the number of all.

    `before` is the last job of the page before. Raises NotFound.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    jobs, total_count = await backfills.find_page(database, kb.key, before=before, skip=skip, limit=limit)
    return [await _measure(database, job) for job in jobs], total_count


async def list_jobs_of_organization(
    database: Database, caller: Caller, *, before: str | None = None, skip: int, limit: int
) -> tuple[list[JobProgress], int]:
    """Return a page of the jobs of all KBs with their progress, newest first, and the number of all."""
    jobs, total_count = await backfills.find_page_of_organization(
        database, caller.organization_id, before=before, skip=skip, limit=limit
    )
    return [await _measure(database, job) for job in jobs], total_count


async def _measure(database: Database, job: Backfill, *, session: MongoSession | None = None) -> JobProgress:
    undone, failed = await index_jobs.count_of_backfill(database, job.knowledge_base, job.job_id, session=session)
    done = max(0, job.queued - undone)
    total = max(job.total, job.queued) if job.state is BackfillState.RUNNING else job.queued
    status: JobStatus = "running" if job.state is BackfillState.RUNNING or undone else "done"
    if job.state is BackfillState.CANCELLED:
        status = "cancelled"
    eta_s = await _estimate_seconds(database, job) if status == "running" else None
    return JobProgress(job, status, total, done, failed, eta_s)


async def _estimate_seconds(database: Database, job: Backfill) -> float | None:
    """Estimate it as the statistics of the KB do: documents differ too much in size to be counted."""
    kb = await knowledge_bases.find(database, job.knowledge_base)
    return None if kb is None else (await measure_indexing(database, kb, await count_all(database, kb))).seconds


async def cancel_job(database: Database, caller: Caller, *, kb_id: str, job_id: str) -> JobProgress:
    """Stop a job from beginning further documents; those already begun are finished. No change if it is over.

    Raises:
        NotFound: as `measure_progress`.
        RequestError: 409 `job-not-cancellable`.
    """
    before = await measure_progress(database, caller, kb_id=kb_id, job_id=job_id)
    if before.job.kind not in CANCELLABLE:
        raise RequestError(
            409,
            "job-not-cancellable",
            "This job brings the knowledge base up to date and can't be cancelled; pause the knowledge base instead.",
        )
    if before.status != "running":
        # In a transaction: its commit confirms that a majority has the state.
        return await in_transaction(
            database, lambda session: measure_progress(database, caller, kb_id=kb_id, job_id=job_id, session=session)
        )
    await backfills.cancel(database, before.job)
    await index_jobs.unforce(database, before.job.knowledge_base, backfill_id=job_id)
    return await measure_progress(database, caller, kb_id=kb_id, job_id=job_id)
