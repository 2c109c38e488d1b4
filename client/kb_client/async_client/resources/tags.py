from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.tags import TagList, TagView


class AsyncTags(AsyncResource):
    """Tags, which decide the knowledge bases that a document belongs to."""

    @operation
    def put(self, tag_id: str, *, name: str) -> ApiCall[TagView]:
        """Create a tag, or rename it."""
        return ApiCall("POST", "/tags", TagView, body={"tag_id": tag_id, "name": name})

    @operation
    def put_by_id(self, tag_id: str, *, name: str) -> ApiCall[TagView]:
        """Create a tag, or rename it, by a path with its id."""
        return ApiCall("PUT", "/tags/{tag_id}", TagView, ids={"tag_id": tag_id}, body={"name": name})

    @operation
    def delete(self, tag_id: str) -> ApiCall[MessageResponse]:
        """Delete a tag that no knowledge base and no document has."""
        return ApiCall("DELETE", "/tags/{tag_id}", MessageResponse, ids={"tag_id": tag_id})

    @listing
    def list(
        self, *, name_search: str | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[TagList, TagView]:
        """Return a page of the tags, or of those with this part in their name."""
        return PageCall(
            "GET",
            "/tags",
            TagList,
            query={"name_search": name_search, "skip": skip, "limit": limit},
            items=lambda page: page.tags,
        )
