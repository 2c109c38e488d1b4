from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.threads import RunOfThread, ThreadList, ThreadView, ThreadWithRuns


class AsyncThreads(AsyncResource):
    """Conversations, to which runs belong."""

    @operation
    def create(self, *, title: str | Unset = UNSET) -> ApiCall[ThreadView]:
        """Create a conversation, to which runs can be added with `thread_id`."""
        return ApiCall("POST", "/threads", ThreadView, body=without_unset({"title": title}))

    @operation
    def delete(self, thread_id: str) -> ApiCall[MessageResponse]:
        """Delete a conversation with its runs."""
        return ApiCall("DELETE", "/threads/{thread_id}", MessageResponse, ids={"thread_id": thread_id})

    @listing
    def get(
        self,
        thread_id: str,
        *,
        with_tool_calls: bool | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[ThreadWithRuns, RunOfThread]:
        """Return a conversation with a page of its runs, newest first; their calls of tools only if asked for."""
        return PageCall(
            "GET",
            "/threads/{thread_id}",
            ThreadWithRuns,
            ids={"thread_id": thread_id},
            query={"with_tool_calls": with_tool_calls, "skip": skip, "limit": limit},
            items=lambda page: page.runs,
        )

    @listing
    def list(
        self, *, cursor: str | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[ThreadList, ThreadView]:
        """Return a page of the conversations, newest first."""
        return PageCall(
            "GET",
            "/threads",
            ThreadList,
            query={"cursor": cursor, "skip": skip, "limit": limit},
            items=lambda page: page.threads,
        )
