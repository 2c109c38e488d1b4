from collections.abc import Sequence
from datetime import datetime

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.knowledge_entries import (
    EmbeddingStatus,
    EntryChunkList,
    EntryChunkView,
    EntryPage,
    EntrySummary,
    EntryView,
)
from kb_contracts.api.model import MessageResponse


class AsyncKnowledgeEntries(AsyncResource):
    """Entries: texts that people write, import or have fetched."""

    @operation
    def create(
        self,
        *,
        content: str,
        title: str | Unset | None = UNSET,
        entry_id: str | Unset | None = UNSET,
        tags: Sequence[str] | Unset = UNSET,
        type: str | Unset = UNSET,  # noqa: A002  # the name of the field
        knowledge_type: str | Unset | None = UNSET,
        info_type: str | Unset | None = UNSET,
        entity_id: str | Unset | None = UNSET,
        embedding_text: str | Unset | None = UNSET,
        override_reason: str | Unset | None = UNSET,
    ) -> ApiCall[EntryView]:
        """Create an entry, or a piece if `knowledge_type` is given. It is indexed from now on.

        Args:
            entry_id: id, which never changes; by default a new one.
            embedding_text: text that is embedded in place of `content`; each has at most 8,000 characters then.
            override_reason: why a text that looks as if it contained a credential contains none, for the audit log.
        """
        return ApiCall(
            "POST",
            "/knowledge-entries",
            EntryView,
            body=without_unset(
                {
                    "entry_id": entry_id,
                    "title": title,
                    "content": content,
                    "tags": tags,
                    "type": type,
                    "knowledge_type": knowledge_type,
                    "info_type": info_type,
                    "entity_id": entity_id,
                    "embedding_text": embedding_text,
                    "override_reason": override_reason,
                }
            ),
        )

    @operation
    def get(self, entry_id: str) -> ApiCall[EntryView]:
        """Return an entry."""
        return ApiCall("GET", "/knowledge-entries/{entry_id}", EntryView, ids={"entry_id": entry_id})

    @operation
    def update(
        self,
        entry_id: str,
        *,
        title: str | Unset = UNSET,
        content: str | Unset = UNSET,
        tags: Sequence[str] | Unset = UNSET,
        type: str | Unset = UNSET,  # noqa: A002  # the name of the field
        knowledge_type: str | Unset | None = UNSET,
        info_type: str | Unset | None = UNSET,
        entity_id: str | Unset | None = UNSET,
        embedding_text: str | Unset | None = UNSET,
        override_reason: str | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[EntryView]:
        """Change the given fields. Searches find the old content until the new one is indexed.

        Args:
            override_reason: why a text that looks as if it contained a credential contains none, for the audit log.
            if_match: `etag` of the version that the change is meant for; another version is not changed.
        """
        return ApiCall(
            "PATCH",
            "/knowledge-entries/{entry_id}",
            EntryView,
            ids={"entry_id": entry_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "title": title,
                    "content": content,
                    "tags": tags,
                    "type": type,
                    "knowledge_type": knowledge_type,
                    "info_type": info_type,
                    "entity_id": entity_id,
                    "embedding_text": embedding_text,
                    "override_reason": override_reason,
                }
            ),
        )

    @operation
    def delete(self, entry_id: str) -> ApiCall[MessageResponse]:
        """Delete an entry with its chunks and its citations."""
        return ApiCall("DELETE", "/knowledge-entries/{entry_id}", MessageResponse, ids={"entry_id": entry_id})

    @operation
    def retry(self, entry_id: str) -> ApiCall[EntryView]:
        """Index an entry again now, whose `embedding_status` is `error`."""
        return ApiCall("POST", "/knowledge-entries/{entry_id}/retry", EntryView, ids={"entry_id": entry_id})

    @listing
    def list_chunks(
        self, entry_id: str, *, skip: int | None = None, limit: int | None = None
    ) -> PageCall[EntryChunkList, EntryChunkView]:
        """Return a page of the chunks of an entry; none until it is indexed."""
        return PageCall(
            "GET",
            "/knowledge-entries/{entry_id}/chunks",
            EntryChunkList,
            ids={"entry_id": entry_id},
            query={"skip": skip, "limit": limit},
            items=lambda page: page.chunks,
        )

    @listing
    def list(
        self,
        *,
        q: str | None = None,
        source_type: str | None = None,
        embedding_status: EmbeddingStatus | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tag: str | None = None,
        info_type: str | None = None,
        knowledge_type: str | None = None,
        entity_id: str | None = None,
        source_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> PageCall[EntryPage, EntrySummary]:
        """Return a page of the entries, newest first, with the numbers of all that match.

        Args:
            q: part of the title or the content, regardless of case.
            since: earliest time of creation, `from` in the API.
            until: latest time of creation, `to` in the API.
        """
        return PageCall(
            "GET",
            "/knowledge-entries",
            EntryPage,
            query={
                "q": q,
                "source_type": source_type,
                "embedding_status": embedding_status,
                "from": since,
                "to": until,
                "tag": tag,
                "info_type": info_type,
                "knowledge_type": knowledge_type,
                "entity_id": entity_id,
                "source_id": source_id,
                "cursor": cursor,
                "limit": limit,
            },
            items=lambda page: page.entries,
        )
