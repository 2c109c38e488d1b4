from datetime import datetime
from typing import Literal

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.insights import (
    CitationInsight,
    CitationInsights,
    DocumentInsight,
    DocumentInsights,
    QueryInsight,
    QueryInsights,
    SearchInsights,
)
from kb_contracts.api.search import LoggedOrigin


class AsyncInsights(AsyncResource):
    """Statistics of searches and citations."""

    @operation
    def count_searches(
        self,
        *,
        group_by: str | None = None,
        kb_id: str | None = None,
        origin: LoggedOrigin | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
    ) -> ApiCall[SearchInsights]:
        """Return numbers of searches.

        Args:
            group_by: `day`, `origin` and `kb`, joined by commas; by default `day`.
        """
        return ApiCall(
            "GET",
            "/insights/searches",
            SearchInsights,
            query={"group_by": group_by, "kb_id": kb_id, "origin": origin, "from": since, "to": until},
        )

    @listing
    def list_queries(
        self,
        *,
        by: Literal["top", "zero_results", "failed", "slow"] | None = None,
        kb_id: str | None = None,
        origin: LoggedOrigin | None = None,
        agent_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[QueryInsights, QueryInsight]:
        """Return a page of the queries, by default the most frequent first."""
        return PageCall(
            "GET",
            "/insights/queries",
            QueryInsights,
            query={
                "by": by,
                "kb_id": kb_id,
                "origin": origin,
                "agent_id": agent_id,
                "from": since,
                "to": until,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.queries,
        )

    @listing
    def list_documents(
        self,
        kb_id: str,
        *,
        by: Literal["most_cited", "never_cited"] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[DocumentInsights, DocumentInsight]:
        """Return a page of the documents of a knowledge base, by default the most cited first."""
        return PageCall(
            "GET",
            "/insights/knowledge-bases/{kb_id}/documents",
            DocumentInsights,
            ids={"kb_id": kb_id},
            query={"by": by, "from": since, "to": until, "skip": skip, "limit": limit},
            items=lambda page: page.documents,
        )

    @listing
    def list_citations(
        self,
        *,
        by: Literal["most_cited", "never_cited"] | None = None,
        kind: Literal["documents", "entries"] | None = None,
        kb_id: str | None = None,
        origin: str | None = None,
        agent_id: str | None = None,
        document_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[CitationInsights, CitationInsight]:
        """Return a page of the documents and entries that answers cite, by default the most cited first."""
        return PageCall(
            "GET",
            "/insights/citations",
            CitationInsights,
            query={
                "by": by,
                "kind": kind,
                "kb_id": kb_id,
                "origin": origin,
                "agent_id": agent_id,
                "document_id": document_id,
                "from": since,
                "to": until,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.documents,
        )
