from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_contracts.api.jobs import JobView


class AsyncJobs(AsyncResource):
    """Jobs that index all or the failed documents of a knowledge base again."""

    @operation
    def get(self, kb_id: str, *, job_id: str) -> ApiCall[JobView]:
        """Return a job with its progress."""
        return ApiCall("GET", "/knowledge-bases/{kb_id}/jobs/{job_id}", JobView, ids={"kb_id": kb_id, "job_id": job_id})

    @operation
    def cancel(self, kb_id: str, *, job_id: str) -> ApiCall[JobView]:
        """Cancel the work of a job that has not begun."""
        return ApiCall(
            "DELETE", "/knowledge-bases/{kb_id}/jobs/{job_id}", JobView, ids={"kb_id": kb_id, "job_id": job_id}
        )
