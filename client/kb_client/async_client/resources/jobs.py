from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.jobs import JobList, JobOfKnowledgeBase, JobView, OrganizationJobList


class AsyncJobs(AsyncResource):
    """Jobs that index all or the failed documents of a knowledge base again."""

    @listing
    def list(
        self, kb_id: str, *, cursor: str | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[JobList, JobView]:
        """Return a page of the jobs of a knowledge base, the newest first."""
        return PageCall(
            "GET",
            "/knowledge-bases/{kb_id}/jobs",
            JobList,
            ids={"kb_id": kb_id},
            query={"cursor": cursor, "skip": skip, "limit": limit},
            items=lambda page: page.jobs,
        )

    @listing
    def list_all(
        self, *, cursor: str | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[OrganizationJobList, JobOfKnowledgeBase]:
        """Return a page of the jobs of all knowledge bases, the newest first."""
        return PageCall(
            "GET",
            "/jobs",
            OrganizationJobList,
            query={"cursor": cursor, "skip": skip, "limit": limit},
            items=lambda page: page.jobs,
        )

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
