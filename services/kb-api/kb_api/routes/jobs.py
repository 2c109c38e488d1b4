"""Routes of jobs on a KB: start, watch, cancel, pause, resume, rebuild its search indexes."""

from kb_api import request_document, run_job
from kb_api.act_on_knowledge_bases import act_on_knowledge_bases
from kb_api.dependencies import Cursors, Database, LifeCycle, Reader, Settings, Writer
from kb_api.job_response import reindexing_view, retrying_view
from kb_api.pause_knowledge_base import pause_knowledge_base, resume_knowledge_base
from kb_api.rebuild_search_indexes import rebuild_search_indexes
from kb_api.routes.knowledge_bases import views
from kb_api.run_job import JobProgress
from kb_contracts.api.jobs import (
    JobList,
    JobOfKnowledgeBase,
    JobView,
    OrganizationJobList,
    Reindexing,
    RequestedDocument,
    Retrying,
)
from kb_contracts.api.knowledge_base_batches import ActionOutcomes, BatchOfActions
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import knowledge_bases

router = organization_router("jobs")


@router.post(
    "/knowledge-bases/{kb_id}/reindex",
    operation_id="knowledge_bases.reindex",
    summary="Reindex a knowledge base",
    status_code=202,
    response_model=Reindexing,
)
async def start_reindexing(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> Reindexing:
    """Index every document of the knowledge base again, even if it has not changed. Searches are answered meanwhile.

    If such a job runs already, it is returned.
    """
    started = await run_job.start_reindexing(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return reindexing_view(started)


@router.post(
    "/knowledge-bases/{kb_id}/retry-failed",
    operation_id="knowledge_bases.retry_failed",
    summary="Retry failed documents",
    status_code=202,
    response_model=Retrying,
)
async def start_retrying(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> Retrying:
    """Retry every document that failed, beginning with its first attempt.

    If such a job runs already, it is returned.
    """
    started = await run_job.start_retrying(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return retrying_view(started)


@router.post(
    "/knowledge-bases/{kb_id}/documents/{document_id}/retry",
    operation_id="knowledge_bases.retry_document",
    summary="Retry a failed document",
    status_code=202,
    response_model=RequestedDocument,
    responses=responses("document-not-failed"),
)
async def retry_document(database: Database, caller: Writer, kb_id: str, *, document_id: str) -> RequestedDocument:
    """Try a document again now, beginning with its first attempt, if the last attempt failed."""
    await request_document.retry_document(database, caller, kb_id=kb_id, document_id=document_id)
    return RequestedDocument(kb_id=kb_id, document_id=document_id, message="The document is tried again.")


@router.post(
    "/knowledge-bases/{kb_id}/documents/{document_id}/reindex",
    operation_id="knowledge_bases.reindex_document",
    summary="Reindex a document",
    status_code=202,
    response_model=RequestedDocument,
)
async def reindex_document(database: Database, caller: Writer, kb_id: str, *, document_id: str) -> RequestedDocument:
    """Index a document again, even if it has not changed. Searches find it meanwhile."""
    await request_document.reindex_document(database, caller, kb_id=kb_id, document_id=document_id)
    return RequestedDocument(kb_id=kb_id, document_id=document_id, message="The document is being indexed again.")


@router.get(
    "/knowledge-bases/{kb_id}/jobs",
    operation_id="jobs.list",
    summary="List the jobs of a knowledge base",
    response_model=JobList,
)
async def list_jobs(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    kb_id: str,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> JobList:
    """List the jobs of a knowledge base with their progress, newest first."""
    scope = CursorScope(caller.organization_id, "jobs", {"kb_id": kb_id})
    before = cursors.read(scope, cursor, skip=skip)
    jobs, total_count = await run_job.list_jobs(database, caller, kb_id=kb_id, before=before, skip=skip, limit=limit)
    return JobList(
        jobs=[_view(job) for job in jobs],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, jobs, limit=limit, position=lambda shown: shown.job.job_id),
    )


@router.get(
    "/jobs",
    operation_id="jobs.list_all",
    summary="List the jobs of all knowledge bases",
    response_model=OrganizationJobList,
)
async def list_all_jobs(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    cursor: CursorParameter = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> OrganizationJobList:
    """List the jobs of all knowledge bases with their progress, newest first."""
    scope = CursorScope(caller.organization_id, "all-jobs", {})
    before = cursors.read(scope, cursor, skip=skip)
    found, total_count = await run_job.list_jobs_of_organization(
        database, caller, before=before, skip=skip, limit=limit
    )
    kb_ids = {each.job.kb_id for each in found}
    names = await knowledge_bases.find_names(database, caller.organization_id, kb_ids=kb_ids)
    return OrganizationJobList(
        jobs=[
            JobOfKnowledgeBase(
                **_view(each).model_dump(), kb_id=each.job.kb_id, kb_name=names.get(each.job.kb_id, each.job.kb_id)
            )
            for each in found
        ],
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda shown: shown.job.job_id),
    )


@router.get(
    "/knowledge-bases/{kb_id}/jobs/{job_id}",
    operation_id="jobs.get",
    summary="Get the progress of a job",
    response_model=JobView,
)
async def get_job(database: Database, caller: Reader, kb_id: str, job_id: str) -> JobView:
    """Return how many documents of the job are done."""
    progress = await run_job.measure_progress(database, caller, kb_id=kb_id, job_id=job_id)
    return _view(progress)


@router.delete(
    "/knowledge-bases/{kb_id}/jobs/{job_id}",
    operation_id="jobs.cancel",
    summary="Cancel a job",
    response_model=JobView,
    responses=responses("job-not-cancellable"),
)
async def cancel_job(database: Database, caller: Writer, kb_id: str, job_id: str) -> JobView:
    """Cancel the documents of the job that are not begun. Those that are being indexed are finished."""
    progress = await run_job.cancel_job(database, caller, kb_id=kb_id, job_id=job_id)
    return _view(progress)


@router.post(
    "/knowledge-bases/{kb_id}/pause",
    operation_id="knowledge_bases.pause",
    summary="Pause a knowledge base",
    response_model=KnowledgeBaseView,
    responses=responses("concurrent-change"),
)
async def pause(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index nothing more in this knowledge base until it is resumed. Searches and removals of documents go on.

    A document that is being embedded may be charged, but is not written.
    """
    kb = await pause_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.post(
    "/knowledge-bases/{kb_id}/resume",
    operation_id="knowledge_bases.resume",
    summary="Resume a knowledge base",
    response_model=KnowledgeBaseView,
    responses=responses("concurrent-change"),
)
async def resume(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index the documents that waited while the knowledge base was paused."""
    kb = await resume_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.post(
    "/knowledge-bases/{kb_id}/search-indexes/rebuild",
    operation_id="knowledge_bases.rebuild_search_indexes",
    summary="Rebuild the search indexes of a knowledge base",
    status_code=202,
    response_model=KnowledgeBaseView,
)
async def rebuild_indexes(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Build the vector index and the text index again, without indexing a document again and without charge.

    Searches go on: an index that can answer does so until its successor is built. One that is missing or has failed
    can't, so searches that need it are 503 `index-not-ready` until it is built. `index_rebuild` is null when both
    indexes are built; if one of them fails, `status` is `error`. If they are being built already, nothing changes.
    """
    kb = await rebuild_search_indexes(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.post(
    "/knowledge-bases:batch",
    operation_id="knowledge_bases.batch",
    summary="Pause, resume, reindex or retag several knowledge bases",
    response_model=ActionOutcomes,
)
@open_to_limited_keys
async def act_on_several(
    database: Database, settings: Settings, life_cycle: LifeCycle, caller: Writer, body: BatchOfActions
) -> ActionOutcomes:
    """Carry out an action on each knowledge base; one that is refused does not affect the others.

    The answer is 200 whatever becomes of them: read `outcomes`. After a failure send those that were refused again,
    or all of them.
    """
    outcomes = await act_on_knowledge_bases(
        database,
        caller,
        body.entries,
        max_chunks_limit=settings.max_chunks_per_document,
        life_cycle=life_cycle,
    )
    refused = sum(outcome.problem is not None for outcome in outcomes)
    return ActionOutcomes(accepted_count=len(outcomes) - refused, refused_count=refused, outcomes=outcomes)


def _view(shown: JobProgress) -> JobView:
    return JobView(
        job_id=shown.job.job_id,
        kind=shown.job.kind,
        status=shown.status,
        total=shown.total,
        done=shown.done,
        failed=shown.failed,
        eta_s=shown.eta_s,
        created_at=shown.job.created_at,
    )
