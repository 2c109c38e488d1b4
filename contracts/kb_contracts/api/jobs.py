"""Jobs on a knowledge base."""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, example

JobStatus = Literal["running", "done", "cancelled"]
JobKind = Literal["scan", "reindex", "retry_failed", "resume"]


_JOB_ID: Final = "65f1c2a3b4d5e6f708192a3c"
_JOB: Final = {
    "job_id": _JOB_ID,
    "kind": "reindex",
    "status": "running",
    "total": 42,
    "done": 17,
    "failed": 0,
    "eta_s": 12.5,
    "created_at": "2026-01-31T12:00:00Z",
}


class StartedJob(BaseModel):
    status: JobStatus
    message: str = Field(description="Description of the job for people.")
    job_id: str | None = Field(description="Id of the job; null if there was nothing to do.")


class Reindexing(StartedJob):
    model_config = example(
        {
            "status": "running",
            "message": "42 documents are being indexed again.",
            "job_id": _JOB_ID,
            "document_count": 42,
        }
    )

    document_count: int = Field(description="Number of documents that are indexed again.")


class Retrying(StartedJob):
    model_config = example(
        {
            "status": "running",
            "message": "3 failed documents are tried again.",
            "job_id": _JOB_ID,
            "retry_count": 3,
        }
    )

    retry_count: int = Field(description="Number of failed documents that are retried.")


class RequestedDocument(BaseModel):
    """Confirmation that a document of a knowledge base is looked at again."""

    model_config = example(
        {
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "document_id": "handbook",
            "message": "The document is being indexed again.",
        }
    )

    kb_id: str
    document_id: str
    message: str = Field(description="Description of what happens for people.")


class JobView(BaseModel):
    model_config = example(_JOB)

    job_id: str
    kind: JobKind = Field(
        description="Kind of job: `reindex`, `retry_failed`, `scan` after a change of tags or limits, or `resume`."
    )
    status: JobStatus = Field(description="State of the job.")
    total: int = Field(description="Number of documents of the job.")
    done: int = Field(description="Number of documents that are indexed, removed or failed so far.")
    failed: int = Field(description="Number of documents that failed.")
    eta_s: float | None = Field(
        description="Estimated seconds until no document of the knowledge base waits, as in its statistics; null if "
        "the job is over, or nothing is known that tells."
    )
    created_at: datetime


class JobOfKnowledgeBase(JobView):
    kb_id: str
    kb_name: str = Field(description="Name of the knowledge base.")


class OrganizationJobList(BaseModel):
    model_config = example(
        {
            "jobs": [{**_JOB, "kb_id": "65f1c2a3b4d5e6f708192a3b", "kb_name": "Handbook"}],
            "total_count": 1,
            "next_cursor": None,
        }
    )

    jobs: list[JobOfKnowledgeBase] = Field(description="Jobs of all knowledge bases, newest first.")
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class JobList(BaseModel):
    model_config = example({"jobs": [_JOB], "total_count": 1, "next_cursor": None})

    jobs: list[JobView] = Field(description="Jobs of the knowledge base, newest first.")
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
