"""A knowledge base: its figures, its jobs, and what can be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.problems import ShownProblem, describe_problem
from kb_console.status_words import is_unfinished
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

JOBS = 5
_DAYS_OF_SEARCHES = 7
SEARCH_INDEXES: Final[Mapping[str, str]] = {"kb_vector_index": "by meaning", "kb_text_index": "by words"}
"""Search indexes of a knowledge base, with the kind of search that each one answers."""
_ADDRESS = "/knowledge-bases/{kb_id}"

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get(_ADDRESS)
async def show(
    request: Request, visit: Visitor, kb_id: str, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    return await _render(request, visit, kb_id, done=done)


@router.post(_ADDRESS + "/pause")
async def pause(visit: Visitor, kb_id: str) -> Response:
    await visit.api.knowledge_bases.pause(kb_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="paused"), 303)


@router.post(_ADDRESS + "/resume")
async def resume(visit: Visitor, kb_id: str) -> Response:
    await visit.api.knowledge_bases.resume(kb_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="resumed"), 303)


@router.post(_ADDRESS + "/retry-failed")
async def retry_failed(visit: Visitor, kb_id: str) -> Response:
    started = await visit.api.knowledge_bases.retry_failed(kb_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="retried" if started.retry_count else "no_failed"), 303)


@router.get(_ADDRESS + "/reindex")
async def confirm_reindexing(request: Request, visit: Visitor, kb_id: str) -> HTMLResponse:
    kb, preview = await run_two_or_cancel(
        visit.api.knowledge_bases.get(kb_id), visit.api.knowledge_bases.preview(kb_id=kb_id)
    )
    return render_page(request, "reindex.html", kb=kb, preview=preview)


@router.post(_ADDRESS + "/reindex")
async def reindex(visit: Visitor, kb_id: str) -> Response:
    await visit.api.knowledge_bases.reindex(kb_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="reindexed"), 303)


@router.post(_ADDRESS + "/rebuild-search-indexes")
async def rebuild_search_indexes(visit: Visitor, kb_id: str) -> Response:
    await visit.api.knowledge_bases.rebuild_search_indexes(kb_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="rebuilt"), 303)


@router.get(_ADDRESS + "/tool")
async def show_tool(request: Request, visit: Visitor, kb_id: str) -> HTMLResponse:
    kb, tool = await run_two_or_cancel(visit.api.knowledge_bases.get(kb_id), visit.api.knowledge_bases.get_tool(kb_id))
    return render_page(request, "tool_schema.html", kb=kb, tool=tool.model_dump())


@router.post(_ADDRESS + "/jobs/{job_id}/cancel")
async def cancel_job(visit: Visitor, kb_id: str, job_id: str) -> Response:
    await visit.api.jobs.cancel(kb_id, job_id=job_id)
    return RedirectResponse(visit.address(LIST, kb_id, done="cancelled"), 303)


@router.get(_ADDRESS + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, kb_id: str) -> HTMLResponse:
    return await _render_deletion(request, visit, kb_id)


@router.post(_ADDRESS + "/delete")
async def delete(
    request: Request, visit: Visitor, kb_id: str, name: Annotated[str, Form(max_length=1_000)] = ""
) -> Response:
    kb = await visit.api.knowledge_bases.get(kb_id)
    if name.strip() != kb.name.strip():
        detail = "The name that you typed is not that of this knowledge base. Nothing was deleted."
        problem = ShownProblem(422, "Not deleted", detail, {"name": "Type the name exactly as it is shown."})
        return await _render_deletion(request, visit, kb_id, name=name, problem=problem)
    try:
        await visit.api.knowledge_bases.delete(kb_id)
    except ApiError as error:
        if error.status == 401:
            raise
        return await _render_deletion(request, visit, kb_id, name=name, problem=describe_problem(error))
    return RedirectResponse(visit.address(LIST, done="deleted"), 303)


async def _render(request: Request, visit: Visit, kb_id: str, *, done: str) -> HTMLResponse:
    (kb, searches), stats, jobs = await run_three_or_cancel(
        run_two_or_cancel(visit.api.knowledge_bases.get(kb_id), _count_searches(visit, kb_id)),
        visit.api.knowledge_bases.get_stats(kb_id),
        visit.api.jobs.list(kb_id, limit=JOBS),
    )
    waiting = stats.states.pending + stats.states.running
    is_working = is_unfinished(kb) or any(job.status == "running" for job in jobs.jobs)
    return render_page(
        request,
        "overview.html",
        part="_overview.html",
        kb=kb,
        stats=stats,
        jobs=jobs.jobs,
        searches=searches,
        index_words=SEARCH_INDEXES,
        done=done,
        changes_by_itself=is_working or (waiting > 0 and kb.paused_at is None),
    )


@dataclass(frozen=True, slots=True)
class RecentSearches:
    total: int
    without_results: int


async def _count_searches(visit: Visit, kb_id: str) -> RecentSearches | None:
    """Count the searches of the last days; None if the key is limited to some knowledge bases, and may not see them."""
    since = datetime.now(UTC) - timedelta(days=_DAYS_OF_SEARCHES)
    try:
        found = await visit.api.insights.count_searches(group_by="kb", kb_id=kb_id, since=since)
    except ApiError as error:
        if error.status != 403:
            raise
        return None
    # A search of several knowledge bases counts in each.
    own = [group for group in found.groups if group.kb_id == kb_id]
    return RecentSearches(sum(group.searches for group in own), sum(group.without_results for group in own))


async def _render_deletion(
    request: Request, visit: Visit, kb_id: str, *, name: str = "", problem: ShownProblem | None = None
) -> HTMLResponse:
    kb = await visit.api.knowledge_bases.get(kb_id)
    status = 200 if problem is None else problem.status
    return render_page(request, "delete.html", status_code=status, kb=kb, name=name, problem=problem)
