"""What people can learn from the searches and runs of their organization."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from kb_search.dependencies import Database, Reader
from kb_search.store import query_log, runs, uncited_documents
from kb_search.store.query_log import Insight
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip, Timestamp
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.keys import KnowledgeBaseKey

DEFAULT_RANGE: Final = timedelta(days=30)

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

router = organization_router("insights")

Since = Annotated[Timestamp | None, Query(alias="from", description=f"Default: {DEFAULT_RANGE.days} days before `to`.")]
Until = Annotated[Timestamp | None, Query(alias="to", description="Not included. Default: now.")]
CitedBy = Literal["most_cited", "never_cited"]


class QueryInsight(BaseModel):
    """All searches for the same text, but for capitals and spaces."""

    query: str = Field(description="As it was written last.")
    searches: int
    without_results: int = Field(description="Searches that were answered and found nothing.")
    failed: int = Field(description="Searches that were refused, or could not be answered then.")
    mean_results: float = Field(description="Of the searches that were answered; 0 if none was.")
    mean_ms: float
    max_ms: float
    last_asked_at: datetime


class QueryInsights(BaseModel):
    since: datetime
    until: datetime
    queries: list[QueryInsight]
    total_count: int


class DocumentInsight(BaseModel):
    document_id: str
    document_name: str = Field(description="As it was when it was cited last.")
    runs: int = Field(0, description="That cite it.")
    citations: int = 0
    last_cited_at: datetime | None = None


class DocumentInsights(BaseModel):
    since: datetime
    until: datetime
    documents: list[DocumentInsight]
    total_count: int


@router.get("/insights/knowledge-bases/{kb_id}/documents", summary="Which documents are cited")
async def documents(
    database: Database,
    caller: Reader,
    kb_id: str,
    *,
    by: Annotated[CitedBy, Query(description="Cited by the most runs, or by none.")] = "most_cited",
    since: Since = None,
    until: Until = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> DocumentInsights:
    """From the runs, which are kept for 90 days. A document that has left since is among those that are cited."""
    organization_id = caller.organization_id
    await knowledge_bases.get(database, KnowledgeBaseKey(organization_id, kb_id))
    since, until = _time_range(since, until)
    if by == "most_cited":
        cited, total = await runs.most_cited(
            database, organization_id, kb_id, since=since, until=until, skip=skip, limit=limit
        )
        found = [DocumentInsight.model_validate(asdict(one)) for one in cited]
    else:
        others, total = await uncited_documents.find_uncited(
            database, organization_id, kb_id, since=since, until=until, skip=skip, limit=limit
        )
        found = [DocumentInsight(document_id=document_id, document_name=name) for document_id, name in others]
    return DocumentInsights(since=since, until=until, documents=found, total_count=total)


@router.get("/insights/queries", summary="What was searched for")
async def queries(
    database: Database,
    caller: Reader,
    *,
    by: Annotated[
        Insight,
        Query(description="Asked most often, most often without a result, most often failed, or slowest on average."),
    ] = "top",
    kb_id: Annotated[str | None, Query(max_length=128, description="Only searches in this one.")] = None,
    since: Since = None,
    until: Until = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> QueryInsights:
    """From the log of searches, also of those that failed, which keeps the first page of each for 90 days."""
    since, until = _time_range(since, until)
    found, total = await query_log.asked(
        database, caller.organization_id, by, since=since, until=until, kb_id=kb_id, skip=skip, limit=limit
    )
    insights = [QueryInsight.model_validate(asdict(one)) for one in found]
    return QueryInsights(since=since, until=until, queries=insights, total_count=total)


def _time_range(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    until = until or datetime.now(UTC)
    # There is no time before the year 1.
    since = since or max(until, _EARLIEST + DEFAULT_RANGE) - DEFAULT_RANGE
    if since > until:
        raise invalid_field("from", "Input should not be later than `to`")
    return since, until
