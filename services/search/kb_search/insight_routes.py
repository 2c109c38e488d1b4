"""Insights into the searches and runs of an organization."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, get_args

from fastapi import Query

from kb_contracts.api.insights import (
    CitationInsight,
    CitationInsights,
    CitedBy,
    CitedKind,
    DocumentInsight,
    DocumentInsights,
    Insight,
    QueryInsight,
    QueryInsights,
    SearchGroup,
    SearchInsight,
    SearchInsights,
)
from kb_contracts.api.model import Timestamp
from kb_search.dependencies import Database, Reader
from kb_search.most_searched import measure_most_searched
from kb_search.store import runs, uncited_documents
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field
from kb_shared.http.routing import organization_router
from kb_shared.mongo import citations, knowledge_bases, query_log
from kb_shared.mongo.citations import CitationsWanted
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.query_log import Origin, SearchesWanted

DEFAULT_RANGE: Final = timedelta(days=30)

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

router = organization_router("insights")

InsightKbId = Annotated[str | None, Query(max_length=128, description="Only searches in this knowledge base.")]
Since = Annotated[
    Timestamp | None,
    Query(alias="from", description=f"Beginning of the time range. Default: {DEFAULT_RANGE.days} days before `to`."),
]
Until = Annotated[Timestamp | None, Query(alias="to", description="End of the time range, excluded. Default: now.")]


@router.get(
    "/insights/knowledge-bases/{kb_id}/documents",
    operation_id="insights.list_documents",
    summary="List cited or uncited documents",
)
async def documents(
    database: Database,
    caller: Reader,
    kb_id: str,
    *,
    by: Annotated[
        CitedBy, Query(description="`most_cited`: cited by the most runs; `never_cited`: cited by none.")
    ] = "most_cited",
    since: Since = None,
    until: Until = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> DocumentInsights:
    """List the documents that the most runs cite, or those that no run cites. Runs are kept for 90 days.

    Documents that have left the knowledge base remain among the cited ones.
    """
    key = KnowledgeBaseKey(caller.organization_id, kb_id)
    await knowledge_bases.get(database, key)
    since, until = _time_range(since, until)
    if by == "most_cited":
        cited, total = await runs.most_cited(database, key, since=since, until=until, skip=skip, limit=limit)
        found = [DocumentInsight.model_validate(asdict(one)) for one in cited]
    else:
        others, total = await uncited_documents.find_uncited(
            database, key, since=since, until=until, skip=skip, limit=limit
        )
        found = [DocumentInsight(document_id=document_id, document_name=name) for document_id, name in others]
    return DocumentInsights(since=since, until=until, documents=found, total_count=total)


@router.get(
    "/insights/citations", operation_id="insights.list_citations", summary="List cited or uncited documents and entries"
)
async def cited_documents(
    database: Database,
    caller: Reader,
    *,
    by: Annotated[
        CitedBy,
        Query(
            description="`most_cited`: cited by most answers; `never_cited`: indexed and cited by none, those first "
            "that models saw most often."
        ),
    ] = "most_cited",
    kind: Annotated[
        CitedKind | None,
        Query(description="`entries`: only knowledge entries; `documents`: only documents of upstream services."),
    ] = None,
    kb_id: Annotated[str | None, Query(max_length=128, description="Only passages of this knowledge base.")] = None,
    origin: Annotated[Origin | None, Query(description="Only runs that clients of this kind started.")] = None,
    agent_id: Annotated[str | None, Query(max_length=128, description="Only runs of this agent.")] = None,
    document_id: Annotated[str | None, Query(max_length=128, description="Only this document or entry.")] = None,
    since: Since = None,
    until: Until = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> CitationInsights:
    """List the documents and knowledge entries that answers cite, or never cite, with how often models saw them.

    Counted are completed runs. Rows of a document are deleted with it.
    """
    since, until = _time_range(since, until)
    wanted = CitationsWanted(
        since, until, kind=kind, kb_id=kb_id, origin=origin, agent_id=agent_id, document_id=document_id
    )
    find = citations.most_cited if by == "most_cited" else citations.never_cited
    found, total = await find(database, caller.organization_id, wanted, skip=skip, limit=limit)
    documents = [CitationInsight.model_validate(asdict(one)) for one in found]
    return CitationInsights(since=since, until=until, documents=documents, total_count=total)


@router.get("/insights/queries", operation_id="insights.list_queries", summary="List queries")
@open_to_limited_keys
async def queries(
    database: Database,
    caller: Reader,
    *,
    by: Annotated[
        Insight,
        Query(
            description="Order: `top` asked most often, `zero_results` most often without a result, `failed` most "
            "often failed, `slow` slowest on average."
        ),
    ] = "top",
    kb_id: InsightKbId = None,
    origin: Annotated[Origin | None, Query(description="Only searches of clients of this kind.")] = None,
    agent_id: Annotated[
        str | None, Query(max_length=128, description="Only searches of runs of this agent, and those that named it.")
    ] = None,
    since: Since = None,
    until: Until = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> QueryInsights:
    """List the queries of the time range, with their results and durations.

    A key that is limited to knowledge bases sees searches that were in these only. Failed searches are included. Of
    each search only the request for the first page counts; it is kept for `KB_INSIGHTS_KEPT_DAYS`, 90 days by default.
    """
    since, until = _time_range(since, until)
    wanted = SearchesWanted(since, until, kb_id=kb_id, origin=origin, agent_id=agent_id, limited_to=caller.kb_ids)
    found, total = await query_log.asked(database, caller.organization_id, by, wanted=wanted, skip=skip, limit=limit)
    insights = [QueryInsight.model_validate(asdict(one)) for one in found]
    return QueryInsights(since=since, until=until, queries=insights, total_count=total)


@router.get("/insights/searches", operation_id="insights.count_searches", summary="Count searches")
async def searches(
    database: Database,
    caller: Reader,
    *,
    group_by: Annotated[
        str,
        Query(
            pattern=r"^(day|origin|kb)(,(day|origin|kb)){0,2}$",
            description="What to tell apart: `day`, `origin` and `kb`, separated by commas. A search of several "
            "knowledge bases counts in each.",
        ),
    ] = "day",
    kb_id: InsightKbId = None,
    origin: Annotated[Origin | None, Query(description="Only searches of clients of this kind.")] = None,
    since: Since = None,
    until: Until = None,
) -> SearchInsights:
    """Count the searches of the time range by day, kind of client and knowledge base. They are kept
    for `KB_INSIGHTS_KEPT_DAYS`, 90 days by default.
    """
    since, until = _time_range(since, until)
    groups = {each for each in get_args(SearchGroup) if each in group_by.split(",")}
    wanted = SearchesWanted(since, until, kb_id=kb_id, origin=origin)
    counted = await query_log.count_searches(database, caller.organization_id, groups, wanted=wanted)
    indexing_s = await measure_most_searched(database, caller.organization_id, counted)
    found = [SearchInsight(**asdict(each), mean_indexing_s=indexing_s.get(each.kb_id or "")) for each in counted]
    return SearchInsights(since=since, until=until, groups=found)


def _time_range(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    until = until or datetime.now(UTC)
    # There is no time before the year 1.
    since = since or max(until, _EARLIEST + DEFAULT_RANGE) - DEFAULT_RANGE
    if since > until:
        raise invalid_field("from", "must not be later than `to`")
    return since, until
