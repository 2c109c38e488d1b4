"""What operators do with the work on a KB: start it again, watch it, stop it."""

from datetime import datetime

from pydantic import BaseModel, Field

from kb_api import run_job
from kb_api.dependencies import Database, LifeCycle, Reader, Writer
from kb_api.knowledge_base_response import KnowledgeBaseView
from kb_api.pause_knowledge_base import pause_knowledge_base, resume_knowledge_base
from kb_api.routes.knowledge_bases import views
from kb_api.run_job import JobProgress, JobStatus, Start
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo.backfills import Kind

router = organization_router("jobs")


class StartedJob(BaseModel):
    status: JobStatus
    message: str
    job_id: str | None = Field(description="null: there was nothing to do.")


class Reindexing(StartedJob):
    document_count: int


class Retrying(StartedJob):
    retry_count: int


class JobView(BaseModel):
    job_id: str
    kind: Kind
    status: JobStatus
    total: int
    done: int = Field(description="Of `total` documents: indexed, removed or failed by now.")
    failed: int
    eta_s: float | None
    created_at: datetime

    @classmethod
    def from_progress(cls, shown: JobProgress) -> "JobView":
        return cls(
            job_id=shown.job.job_id,
            kind=shown.job.kind,
            status=shown.status,
            total=shown.total,
            done=shown.done,
            failed=shown.failed,
            eta_s=shown.eta_s,
            created_at=shown.job.created_at,
        )


@router.post("/knowledge-bases/{kb_id}/reindex", status_code=202, response_model=Reindexing)
async def start_reindexing(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> Reindexing:
    """Index every document of the KB again, even if nothing has changed. Searches go on meanwhile.

    While such a job runs, that one is the answer.
    """
    started = await run_job.start_reindexing(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    count = started.job.total if started.job else 0
    return Reindexing(**_described(started, f"{count} documents are being indexed again."), document_count=count)


@router.post("/knowledge-bases/{kb_id}/retry-failed", status_code=202, response_model=Retrying)
async def start_retrying(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> Retrying:
    """Try every document that failed again, from its first attempt on.

    While such a job runs, that one is the answer.
    """
    started = await run_job.start_retrying(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    count = started.job.total if started.job else 0
    return Retrying(**_described(started, f"{count} failed documents are tried again."), retry_count=count)


def _described(started: Start, what: str) -> dict[str, str | None]:
    if started.job is None:
        return {"status": "done", "job_id": None, "message": "There is nothing to do."}
    message = what if started.is_new else f"This runs already: {what}"
    return {"status": "running", "job_id": started.job.job_id, "message": message}


@router.get("/knowledge-bases/{kb_id}/jobs/{job_id}", response_model=JobView)
async def get_job(database: Database, caller: Reader, kb_id: str, job_id: str) -> JobView:
    progress = await run_job.measure_progress(database, caller, kb_id=kb_id, job_id=job_id)
    return JobView.from_progress(progress)


@router.delete("/knowledge-bases/{kb_id}/jobs/{job_id}", response_model=JobView, responses=responses(409))
async def cancel_job(database: Database, caller: Writer, kb_id: str, job_id: str) -> JobView:
    """Cancel what the job has not begun. Documents that are being indexed are finished."""
    progress = await run_job.cancel_job(database, caller, kb_id=kb_id, job_id=job_id)
    return JobView.from_progress(progress)


@router.post("/knowledge-bases/{kb_id}/pause", response_model=KnowledgeBaseView, responses=responses(409))
async def pause(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index nothing more in this KB until it is resumed. What is deleted or untagged leaves it; searches go on.

    A document that is being embedded may be paid for, but is not written.
    """
    kb = await pause_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return (await views(database, caller.organization_id, [kb]))[0]


@router.post("/knowledge-bases/{kb_id}/resume", response_model=KnowledgeBaseView, responses=responses(409))
async def resume(database: Database, life_cycle: LifeCycle, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index all that was kept back while the KB was paused."""
    kb = await resume_knowledge_base(database, caller, kb_id=kb_id, life_cycle=life_cycle)
    return (await views(database, caller.organization_id, [kb]))[0]
