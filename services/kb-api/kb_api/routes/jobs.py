"""What operators do with the work on a KB: start it again, watch it, stop it."""

from datetime import datetime

from pydantic import BaseModel, Field

from kb_api.knowledge_base_response import KnowledgeBaseView
from kb_api.pause_knowledge_base import pause_knowledge_base, resume_knowledge_base
from kb_api.routes.knowledge_bases import views
from kb_api.run_job import JobStatus, Progress, Start, cancel, progress, reindex, retry_failed
from kb_api.services import Api, Reader, Writer
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
    def from_progress(cls, shown: Progress) -> "JobView":
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
async def start_reindexing(api: Api, caller: Writer, kb_id: str) -> Reindexing:
    """Index every document of the KB again, even if nothing has changed. Searches go on meanwhile.

    While such a job runs, that one is the answer.
    """
    started = await reindex(api, caller, kb_id)
    count = started.job.total if started.job else 0
    return Reindexing(**_described(started, f"{count} documents are being indexed again."), document_count=count)


@router.post("/knowledge-bases/{kb_id}/retry-failed", status_code=202, response_model=Retrying)
async def start_retrying(api: Api, caller: Writer, kb_id: str) -> Retrying:
    """Try every document that failed again, from its first attempt on.

    While such a job runs, that one is the answer.
    """
    started = await retry_failed(api, caller, kb_id)
    count = started.job.total if started.job else 0
    return Retrying(**_described(started, f"{count} failed documents are tried again."), retry_count=count)


def _described(started: Start, what: str) -> dict[str, str | None]:
    if started.job is None:
        return {"status": "done", "job_id": None, "message": "There is nothing to do."}
    message = what if started.is_new else f"This runs already: {what}"
    return {"status": "running", "job_id": started.job.job_id, "message": message}


@router.get("/knowledge-bases/{kb_id}/jobs/{job_id}", response_model=JobView)
async def get_job(api: Api, caller: Reader, kb_id: str, job_id: str) -> JobView:
    return JobView.from_progress(await progress(api, caller, kb_id, job_id))


@router.delete("/knowledge-bases/{kb_id}/jobs/{job_id}", response_model=JobView, responses=responses(409))
async def cancel_job(api: Api, caller: Writer, kb_id: str, job_id: str) -> JobView:
    """Cancel what the job has not begun. Documents that are being indexed are finished."""
    return JobView.from_progress(await cancel(api, caller, kb_id, job_id))


@router.post("/knowledge-bases/{kb_id}/pause", response_model=KnowledgeBaseView, responses=responses(409))
async def pause(api: Api, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index nothing more in this KB until it is resumed. What is deleted or untagged leaves it; searches go on.

    A document that is being embedded may be paid for, but is not written.
    """
    kb = await pause_knowledge_base(api, caller, kb_id)
    return (await views(api, caller.organization_id, [kb]))[0]


@router.post("/knowledge-bases/{kb_id}/resume", response_model=KnowledgeBaseView, responses=responses(409))
async def resume(api: Api, caller: Writer, kb_id: str) -> KnowledgeBaseView:
    """Index all that was kept back while the KB was paused."""
    kb = await resume_knowledge_base(api, caller, kb_id)
    return (await views(api, caller.organization_id, [kb]))[0]
