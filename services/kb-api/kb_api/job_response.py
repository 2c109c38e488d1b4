"""Answers to those who start a job."""

from kb_api.run_job import JobStart
from kb_contracts.api.jobs import Reindexing, Retrying


def reindexing_view(started: JobStart) -> Reindexing:
    count = started.job.total if started.job else 0
    return Reindexing(**_described(started, f"{count} documents are being indexed again."), document_count=count)


def retrying_view(started: JobStart) -> Retrying:
    count = started.job.total if started.job else 0
    return Retrying(**_described(started, f"{count} failed documents are tried again."), retry_count=count)


def _described(started: JobStart, what: str) -> dict[str, str | None]:
    if started.job is None:
        return {"status": "done", "job_id": None, "message": "There is nothing to do."}
    message = what if started.is_new else f"This runs already: {what}"
    return {"status": "running", "job_id": started.job.job_id, "message": message}
