from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.json_encoding import encode_metadata
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.jobs import Reindexing, RequestedDocument, Retrying
from kb_contracts.api.knowledge_base_batches import ActionOutcomes, BatchedAction, BatchedTagsOfKnowledgeBase
from kb_contracts.api.knowledge_bases import (
    ChunkerName,
    KnowledgeBaseList,
    KnowledgeBaseStats,
    KnowledgeBaseView,
    RateLimits,
    ShownStatus,
    TextAnalyzer,
)
from kb_contracts.api.memberships import (
    ChunkList,
    ChunkView,
    DocumentList,
    DocumentStatus,
    ExplanationView,
    ListedDocumentSort,
    ListedDocumentView,
    OpenedChunk,
)
from kb_contracts.api.metadata_keys import MetadataKeyList
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.previews import KnowledgeBasePreview
from kb_contracts.api.reconcile import PlanView
from kb_contracts.api.search import SearchResponse, SearchSeveralResponse
from kb_contracts.api.search_explanations import SearchExplanationView
from kb_contracts.api.tool_schemas import ToolSchemaView

SearchMode = Literal["hybrid", "vector", "text"]
Priority = Literal["similarity", "recency", "balanced"]


class AsyncKnowledgeBases(AsyncResource):
    """Knowledge bases: what is in them, how they are built, and searches."""

    @operation
    def create(
        self,
        *,
        name: str,
        description: str | Unset = UNSET,
        tag_ids: Sequence[str] | Unset = UNSET,
        chunker_type: ChunkerName | Unset = UNSET,
        chunk_size: int | Unset | None = UNSET,
        chunk_overlap: int | Unset | None = UNSET,
        embedding_model: str | Unset | None = UNSET,
        coalesce_neighbors: int | Unset = UNSET,
        min_score: float | Unset | None = UNSET,
        text_analyzer: TextAnalyzer | Unset = UNSET,
        filterable_metadata: Sequence[str] | Unset = UNSET,
        max_chunks_per_document: int | Unset | None = UNSET,
        refuse_sensitive: bool | Unset = UNSET,
        rate_limits: RateLimits | Mapping[str, int | None] | Unset = UNSET,
    ) -> ApiCall[KnowledgeBaseView]:
        """Create a knowledge base of all documents with one of the tags."""
        return ApiCall(
            "POST",
            "/knowledge-bases",
            KnowledgeBaseView,
            body=without_unset(
                {
                    "name": name,
                    "description": description,
                    "tag_ids": tag_ids,
                    "chunker_type": chunker_type,
                    "chunk_size": chunk_size,
                    "chunk_overlap": chunk_overlap,
                    "embedding_model": embedding_model,
                    "coalesce_neighbors": coalesce_neighbors,
                    "min_score": min_score,
                    "text_analyzer": text_analyzer,
                    "filterable_metadata": filterable_metadata,
                    "max_chunks_per_document": max_chunks_per_document,
                    "refuse_sensitive": refuse_sensitive,
                    "rate_limits": rate_limits,
                }
            ),
        )

    @operation
    def preview(
        self,
        *,
        kb_id: str | Unset | None = UNSET,
        tag_ids: Sequence[str] | Unset | None = UNSET,
        text: str | Unset | None = UNSET,
        document_id: str | Unset | None = UNSET,
        chunker_type: ChunkerName | Unset | None = UNSET,
        chunk_size: int | Unset | None = UNSET,
        chunk_overlap: int | Unset | None = UNSET,
        embedding_model: str | Unset | None = UNSET,
        max_chunks_per_document: int | Unset | None = UNSET,
        skip: int | Unset = UNSET,
        limit: int | Unset = UNSET,
    ) -> ApiCall[KnowledgeBasePreview]:
        """Return what settings would bring: documents, chunks, costs, time. Nothing is changed or charged."""
        return ApiCall(
            "POST",
            "/knowledge-bases/preview",
            KnowledgeBasePreview,
            only_reads=True,
            body=without_unset(
                {
                    "kb_id": kb_id,
                    "tag_ids": tag_ids,
                    "text": text,
                    "document_id": document_id,
                    "chunker_type": chunker_type,
                    "chunk_size": chunk_size,
                    "chunk_overlap": chunk_overlap,
                    "embedding_model": embedding_model,
                    "max_chunks_per_document": max_chunks_per_document,
                    "skip": skip,
                    "limit": limit,
                }
            ),
        )

    @operation
    def get(self, kb_id: str) -> ApiCall[KnowledgeBaseView]:
        """Return a knowledge base."""
        return ApiCall("GET", "/knowledge-bases/{kb_id}", KnowledgeBaseView, ids={"kb_id": kb_id})

    @operation
    def update(
        self,
        kb_id: str,
        *,
        name: str | Unset = UNSET,
        description: str | Unset = UNSET,
        tag_ids: Sequence[str] | Unset = UNSET,
        coalesce_neighbors: int | Unset = UNSET,
        min_score: float | Unset | None = UNSET,
        filterable_metadata: Sequence[str] | Unset = UNSET,
        max_chunks_per_document: int | Unset = UNSET,
        refuse_sensitive: bool | Unset = UNSET,
        rate_limits: RateLimits | Mapping[str, int | None] | Unset = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[KnowledgeBaseView]:
        """Change the given fields.

        Args:
            if_match: `etag` of the version that the change is meant for; another version is not changed.
        """
        return ApiCall(
            "PUT",
            "/knowledge-bases/{kb_id}",
            KnowledgeBaseView,
            ids={"kb_id": kb_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "name": name,
                    "description": description,
                    "tag_ids": tag_ids,
                    "coalesce_neighbors": coalesce_neighbors,
                    "min_score": min_score,
                    "filterable_metadata": filterable_metadata,
                    "max_chunks_per_document": max_chunks_per_document,
                    "refuse_sensitive": refuse_sensitive,
                    "rate_limits": rate_limits,
                }
            ),
        )

    @operation
    def delete(self, kb_id: str) -> ApiCall[MessageResponse]:
        """Delete a knowledge base with all its chunks. Its documents stay."""
        return ApiCall("DELETE", "/knowledge-bases/{kb_id}", MessageResponse, ids={"kb_id": kb_id})

    @operation
    def search(
        self,
        kb_id: str,
        query: str,
        *,
        top_k: int | Unset = UNSET,
        skip: int | Unset = UNSET,
        mode: SearchMode | Unset = UNSET,
        document_ids: Sequence[str] | Unset | None = UNSET,
        tag_ids: Sequence[str] | Unset | None = UNSET,
        metadata_filter: Mapping[str, Any] | Unset | None = UNSET,
        upload_date_from: datetime | str | Unset | None = UNSET,
        upload_date_to: datetime | str | Unset | None = UNSET,
        min_score: float | Unset | None = UNSET,
        coalesce_neighbors: int | Unset | None = UNSET,
        max_tokens: int | Unset | None = UNSET,
        prioritize_by: Priority | Unset = UNSET,
    ) -> ApiCall[SearchResponse]:
        """Search by meaning, by words, or both, and return the best matching chunks."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/search",
            SearchResponse,
            ids={"kb_id": kb_id},
            only_reads=True,
            body=without_unset(
                {
                    "query": query,
                    "top_k": top_k,
                    "skip": skip,
                    "mode": mode,
                    "document_ids": document_ids,
                    "tag_ids": tag_ids,
                    "metadata_filter": encode_metadata(metadata_filter),
                    "upload_date_from": upload_date_from,
                    "upload_date_to": upload_date_to,
                    "min_score": min_score,
                    "coalesce_neighbors": coalesce_neighbors,
                    "max_tokens": max_tokens,
                    "prioritize_by": prioritize_by,
                }
            ),
        )

    @operation
    def search_several(
        self,
        query: str,
        *,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        top_k: int | Unset = UNSET,
        skip: int | Unset = UNSET,
        mode: SearchMode | Unset = UNSET,
        document_ids: Sequence[str] | Unset | None = UNSET,
        tag_ids: Sequence[str] | Unset | None = UNSET,
        metadata_filter: Mapping[str, Any] | Unset | None = UNSET,
        upload_date_from: datetime | str | Unset | None = UNSET,
        upload_date_to: datetime | str | Unset | None = UNSET,
        min_score: float | Unset | None = UNSET,
        coalesce_neighbors: int | Unset | None = UNSET,
        max_tokens: int | Unset | None = UNSET,
        prioritize_by: Priority | Unset = UNSET,
    ) -> ApiCall[SearchSeveralResponse]:
        """Search several knowledge bases, by default all of the organization, and merge the results by rank."""
        return ApiCall(
            "POST",
            "/knowledge-bases/search",
            SearchSeveralResponse,
            only_reads=True,
            body=without_unset(
                {
                    "query": query,
                    "kb_ids": kb_ids,
                    "top_k": top_k,
                    "skip": skip,
                    "mode": mode,
                    "document_ids": document_ids,
                    "tag_ids": tag_ids,
                    "metadata_filter": encode_metadata(metadata_filter),
                    "upload_date_from": upload_date_from,
                    "upload_date_to": upload_date_to,
                    "min_score": min_score,
                    "coalesce_neighbors": coalesce_neighbors,
                    "max_tokens": max_tokens,
                    "prioritize_by": prioritize_by,
                }
            ),
        )

    @operation
    def explain_search(
        self,
        kb_id: str,
        query: str,
        *,
        document_id: str,
        top_k: int | Unset = UNSET,
        skip: int | Unset = UNSET,
        mode: SearchMode | Unset = UNSET,
        document_ids: Sequence[str] | Unset | None = UNSET,
        tag_ids: Sequence[str] | Unset | None = UNSET,
        metadata_filter: Mapping[str, Any] | Unset | None = UNSET,
        upload_date_from: datetime | str | Unset | None = UNSET,
        upload_date_to: datetime | str | Unset | None = UNSET,
        min_score: float | Unset | None = UNSET,
        coalesce_neighbors: int | Unset | None = UNSET,
        max_tokens: int | Unset | None = UNSET,
        prioritize_by: Priority | Unset = UNSET,
    ) -> ApiCall[SearchExplanationView]:
        """Explain why a document is, or is not, among the results of this search."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/search/explain",
            SearchExplanationView,
            ids={"kb_id": kb_id},
            only_reads=True,
            body=without_unset(
                {
                    "query": query,
                    "document_id": document_id,
                    "top_k": top_k,
                    "skip": skip,
                    "mode": mode,
                    "document_ids": document_ids,
                    "tag_ids": tag_ids,
                    "metadata_filter": encode_metadata(metadata_filter),
                    "upload_date_from": upload_date_from,
                    "upload_date_to": upload_date_to,
                    "min_score": min_score,
                    "coalesce_neighbors": coalesce_neighbors,
                    "max_tokens": max_tokens,
                    "prioritize_by": prioritize_by,
                }
            ),
        )

    @operation
    def get_stats(self, kb_id: str) -> ApiCall[KnowledgeBaseStats]:
        """Return size, progress and search indexes of a knowledge base."""
        return ApiCall("GET", "/knowledge-bases/{kb_id}/stats", KnowledgeBaseStats, ids={"kb_id": kb_id})

    @operation
    def get_chunk(self, kb_id: str, *, chunk_id: str) -> ApiCall[OpenedChunk]:
        """Open a citation: return the passage with this id, `citation` of a search result."""
        return ApiCall(
            "GET",
            "/knowledge-bases/{kb_id}/chunks/{chunk_id}",
            OpenedChunk,
            ids={"kb_id": kb_id, "chunk_id": chunk_id},
        )

    @operation
    def list_metadata_keys(self, kb_id: str) -> ApiCall[MetadataKeyList]:
        """Return the metadata keys of the documents, with their types and most frequent values, for filters."""
        return ApiCall("GET", "/knowledge-bases/{kb_id}/metadata-keys", MetadataKeyList, ids={"kb_id": kb_id})

    @operation
    def explain_document(self, kb_id: str, *, document_id: str) -> ApiCall[ExplanationView]:
        """Explain why a document is in the knowledge base or not."""
        return ApiCall(
            "GET",
            "/knowledge-bases/{kb_id}/documents/{document_id}/explain",
            ExplanationView,
            ids={"kb_id": kb_id, "document_id": document_id},
        )

    @operation
    def reindex(self, kb_id: str) -> ApiCall[Reindexing]:
        """Index all documents of the knowledge base again."""
        return ApiCall("POST", "/knowledge-bases/{kb_id}/reindex", Reindexing, ids={"kb_id": kb_id})

    @operation
    def retry_failed(self, kb_id: str) -> ApiCall[Retrying]:
        """Try the documents again that could not be indexed."""
        return ApiCall("POST", "/knowledge-bases/{kb_id}/retry-failed", Retrying, ids={"kb_id": kb_id})

    @operation
    def retry_document(self, kb_id: str, *, document_id: str) -> ApiCall[RequestedDocument]:
        """Try a document again now whose last attempt failed."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/documents/{document_id}/retry",
            RequestedDocument,
            ids={"kb_id": kb_id, "document_id": document_id},
        )

    @operation
    def reindex_document(self, kb_id: str, *, document_id: str) -> ApiCall[RequestedDocument]:
        """Index a document again, even if it has not changed."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/documents/{document_id}/reindex",
            RequestedDocument,
            ids={"kb_id": kb_id, "document_id": document_id},
        )

    @operation
    def get_tool(self, kb_id: str) -> ApiCall[ToolSchemaView]:
        """Return the function-calling schema of a search in this knowledge base, ready to paste."""
        return ApiCall("GET", "/knowledge-bases/{kb_id}/tool", ToolSchemaView, ids={"kb_id": kb_id})

    @operation
    def pause(self, kb_id: str) -> ApiCall[KnowledgeBaseView]:
        """Stop indexing; searches go on."""
        return ApiCall("POST", "/knowledge-bases/{kb_id}/pause", KnowledgeBaseView, ids={"kb_id": kb_id})

    @operation
    def resume(self, kb_id: str) -> ApiCall[KnowledgeBaseView]:
        """Resume indexing."""
        return ApiCall("POST", "/knowledge-bases/{kb_id}/resume", KnowledgeBaseView, ids={"kb_id": kb_id})

    @operation
    def rebuild_search_indexes(self, kb_id: str) -> ApiCall[KnowledgeBaseView]:
        """Build both search indexes again; searches go on with those that can answer."""
        return ApiCall(
            "POST", "/knowledge-bases/{kb_id}/search-indexes/rebuild", KnowledgeBaseView, ids={"kb_id": kb_id}
        )

    @operation
    def batch(
        self, entries: Sequence[BatchedAction | BatchedTagsOfKnowledgeBase | Mapping[str, Any]]
    ) -> ApiCall[ActionOutcomes]:
        """Pause, resume, reindex, retry or retag up to 100 knowledge bases, each with an outcome of its own.

        Args:
            entries: a `kb_id` and an `action` each: `pause`, `resume`, `reindex`, `retry_failed`, or `replace_tags`
                with `tag_ids`.
        """
        return ApiCall("POST", "/knowledge-bases:batch", ActionOutcomes, body={"entries": entries})

    @operation
    def reconcile(self, kb_id: str, *, dry_run: bool | Unset = UNSET) -> ApiCall[PlanView]:
        """Compare a knowledge base with its documents, and repair what differs."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/reconcile",
            PlanView,
            ids={"kb_id": kb_id},
            query={"dry_run": dry_run},
        )

    @operation
    def reconcile_document(self, kb_id: str, *, document_id: str, dry_run: bool | Unset = UNSET) -> ApiCall[PlanView]:
        """Compare one document in a knowledge base with what it should be, and repair what differs."""
        return ApiCall(
            "POST",
            "/knowledge-bases/{kb_id}/documents/{document_id}/reconcile",
            PlanView,
            ids={"kb_id": kb_id, "document_id": document_id},
            query={"dry_run": dry_run},
        )

    @listing
    def list_documents(
        self,
        kb_id: str,
        *,
        status: DocumentStatus | Literal["all"] | None = None,
        name_search: str | None = None,
        sort: ListedDocumentSort | None = None,
        cursor: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[DocumentList, ListedDocumentView]:
        """Return a page of the documents of a knowledge base, by default of the indexed ones."""
        return PageCall(
            "GET",
            "/knowledge-bases/{kb_id}/documents",
            DocumentList,
            ids={"kb_id": kb_id},
            query={
                "status": status,
                "name_search": name_search,
                "sort": sort,
                "cursor": cursor,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.documents,
        )

    @listing
    def list_chunks(
        self,
        kb_id: str,
        *,
        document_id: str,
        around: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[ChunkList, ChunkView]:
        """Return a page of the chunks of a document, in the order of its text.

        Args:
            around: id of a chunk that the page must contain.
        """
        return PageCall(
            "GET",
            "/knowledge-bases/{kb_id}/chunks",
            ChunkList,
            ids={"kb_id": kb_id},
            query={"document_id": document_id, "around": around, "skip": skip, "limit": limit},
            items=lambda page: page.chunks,
        )

    @listing
    def list(
        self,
        *,
        name_search: str | None = None,
        status: ShownStatus | None = None,
        tag_id: str | None = None,
        sort: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[KnowledgeBaseList, KnowledgeBaseView]:
        """Return a page of the knowledge bases.

        Args:
            sort: a field, such as `name`; with a minus before it in descending order.
        """
        return PageCall(
            "GET",
            "/knowledge-bases",
            KnowledgeBaseList,
            query={
                "name_search": name_search,
                "status": status,
                "tag_id": tag_id,
                "sort": sort,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.knowledge_bases,
        )
