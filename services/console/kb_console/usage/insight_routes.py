"""Insights: what is searched and not found, what is slow, what answers cite and what they never do."""

from collections.abc import Awaitable, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from kb_console.addresses import DOCUMENTS, LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.usage.time_range import RANGES, ShownRange
from kb_contracts.api.insights import Insight, SearchInsight
from kb_contracts.api.search import LoggedOrigin
from kb_contracts.reserved_ids import find_entry_id
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

INSIGHTS: Final = "insights"
MOST_SEARCHED: Final = 5
_CITED: Final = 10
_CHOICES: Final = 100
_ORDERS: Final = [
    ("top", "asked most often"),
    ("zero_results", "without results"),
    ("slow", "slow"),
    ("failed", "failed"),
]
_ORIGINS: Final = [
    ("", "any"),
    ("sdk", "programs"),
    ("console", "this console"),
    ("cli", "command line"),
    ("agent", "agents"),
    ("mcp", "MCP clients"),
]

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{INSIGHTS}")


@router.get("")
async def show(
    request: Request,
    visit: Visitor,
    shown_range: ShownRange,
    *,
    paging: Paging,
    by: Insight = "top",
    kb: Annotated[str, Query(max_length=100)] = "",
    origin: LoggedOrigin | Literal[""] = "",
) -> HTMLResponse:
    time: dict[str, Any] = {"since": shown_range.since, "until": shown_range.until}
    kb_id, searches_from = kb or None, origin or None
    insights = visit.api.insights
    calls: list[Awaitable[Any]] = [
        insights.count_searches(group_by="day", kb_id=kb_id, origin=searches_from, **time),
        insights.count_searches(group_by="kb", origin=searches_from, **time),
        insights.list_queries(by=by, kb_id=kb_id, origin=searches_from, skip=paging.skip, limit=ROWS, **time),
        insights.list_citations(by="most_cited", kb_id=kb_id, origin=searches_from, limit=_CITED, **time),
        insights.list_citations(by="never_cited", kb_id=kb_id, origin=searches_from, limit=_CITED, **time),
        visit.api.knowledge_bases.list(sort="name", limit=_CHOICES),
    ]
    searches, of_kbs, queries, cited, uncited, kbs = await run_all_or_cancel(calls)
    names = {each.kb_id: each.name for each in kbs.knowledge_bases}

    def address_of(**changed: object) -> str:
        shown = {"range": shown_range.query, "by": by, "kb": kb, "origin": origin}
        return visit.address(INSIGHTS, **{**shown, **changed})

    return render_page(
        request,
        "insights.html",
        time_range=shown_range,
        ranges=[*RANGES.items()],
        by=by,
        kb=kb,
        origin=origin,
        orders=_ORDERS,
        origins=_ORIGINS,
        choices=[("", "all"), *names.items()],
        names=names,
        days=_by_day(searches.groups, shown_range.days()),
        searches=sum(each.searches for each in searches.groups),
        without_results=sum(each.without_results for each in searches.groups),
        queries=queries,
        cited=cited.documents,
        uncited=uncited,
        most_searched=_most_searched(of_kbs.groups, names),
        paging=paging,
        address_of_page=lambda page: address_of(page=page),
        address_of_order=lambda order: address_of(by=order),
        address_of_test=lambda query: visit.address(*([LIST, kb] if kb else []), "search", q=query),
        address_of_document=lambda document_id: _address_of_document(visit, document_id, kb=kb),
    )


def _address_of_document(visit: Visit, document_id: str, *, kb: str) -> str:
    entry_id = find_entry_id(document_id)
    if entry_id is not None:
        return visit.address("knowledge", "entries", entry_id)
    return visit.address(*([LIST, kb] if kb else []), DOCUMENTS, document_id)


def _most_searched(groups: Sequence[SearchInsight], names: Mapping[str, str]) -> list[SearchInsight]:
    """Return the groups of the knowledge bases that are searched most, of those that still exist."""
    existing = [each for each in groups if each.kb_id in names]
    return sorted(existing, key=lambda each: -each.searches)[:MOST_SEARCHED]


def _by_day(groups: Sequence[SearchInsight], days: Sequence[date]) -> list[tuple[date, int, int]]:
    """Return each day with its searches and how many of them found nothing."""
    found = {each.day: each for each in groups}
    return [
        (day, group.searches, group.without_results) if (group := found.get(day.isoformat())) else (day, 0, 0)
        for day in days
    ]
