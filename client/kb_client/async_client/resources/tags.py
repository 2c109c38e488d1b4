from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.tags import TagList, TagView


class AsyncTags(AsyncResource):
    """Tags, which decide the knowledge bases that a document belongs to."""

    @operation
    def put(self, tag_id: str, *, name: str) -> ApiCall[TagView]:
        """Create a tag, or rename it."""
        return ApiCall("POST", "/tags", TagView, body={"tag_id": tag_id, "name": name})

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[TagList, TagView]:
        """Return a page of the tags."""
        return PageCall("GET", "/tags", TagList, query={"skip": skip, "limit": limit}, items=lambda page: page.tags)
