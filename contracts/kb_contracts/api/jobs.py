"""Jobs on a knowledge base."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

JobStatus = Literal["running", "done", "cancelled"]
JobKind = Literal["scan", "reindex", "retry_failed", "resume"]


class StartedJob(BaseModel):
    status: JobStatus
    message: str = Field(description="Description of the job for people.")
    job_id: str | None = Field(description="Id of the job; null if there was nothing to do.")


class Reindexing(StartedJob):
    document_count: int = Field(description="Number of documents that are indexed again.")


class Retrying(StartedJob):
    retry_count: int = Field(description="Number of failed documents that are retried.")


class JobView(BaseModel):
    job_id: str
    kind: JobKind = Field(
        description="Kind of job: `reindex`, `retry_failed`, `scan` after a change of tags or limits, or `resume`."
    )
    status: JobStatus = Field(description="State of the job.")
    total: int = Field(description="Number of documents of the job.")
    done: int = Field(description="Number of documents that are indexed, removed or failed so far.")
    failed: int = Field(description="Number of documents that failed.")
    eta_s: float | None = Field(
        description="Estimated seconds until the job is done; null if it is over or nothing is done yet."
    )
    created_at: datetime
