"""What people can learn from the searches of their organization."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from kb_shared.http.authentication import Caller, require
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip, Timestamp
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.mongo import query_log
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.query_log import Insight

DEFAULT_RANGE: Final = timedelta(days=30)

Reader = Annotated[Caller, Depends(require(Scope.READ))]


class QueryInsight(BaseModel):
    """All searches for the same text, but for capitals and spaces."""

    query: str = Field(description="As it was written last.")
    searches: int
    without_results: int
    mean_results: float
    mean_ms: float
    max_ms: float
    last_asked_at: datetime


class QueryInsights(BaseModel):
    since: datetime
    until: datetime
    queries: list[QueryInsight]
    total_count: int


def insights_router(database: Database) -> APIRouter:
    router = organization_router("insights")

    @router.get("/insights/queries", summary="What was searched for")
    async def queries(
        caller: Reader,
        *,
        by: Annotated[
            Insight, Query(description="Asked most often, most often without a result, or slowest on average.")
        ] = "top",
        kb_id: Annotated[str | None, Query(max_length=128, description="Only searches in this one.")] = None,
        since: Annotated[
            Timestamp | None, Query(alias="from", description=f"Default: {DEFAULT_RANGE.days} days before `to`.")
        ] = None,
        until: Annotated[Timestamp | None, Query(alias="to", description="Not included. Default: now.")] = None,
        skip: Skip = 0,
        limit: Limit = DEFAULT_LIMIT,
    ) -> QueryInsights:
        """From the log of searches, which keeps the first page of each for 90 days."""
        until = until or datetime.now(UTC)
        since = since or until - DEFAULT_RANGE
        if since > until:
            raise invalid_field("from", "Input should not be later than `to`")
        found, total = await query_log.asked(
            database, caller.organization_id, by, since=since, until=until, kb_id=kb_id, skip=skip, limit=limit
        )
        insights = [QueryInsight.model_validate(asdict(one)) for one in found]
        return QueryInsights(since=since, until=until, queries=insights, total_count=total)

    return router
