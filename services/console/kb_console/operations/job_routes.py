"""Jobs on all knowledge bases: their progress, and how to stop one."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visitor
from kb_console.operations.operations_routes import SECTION
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

JOBS: Final = "jobs"

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SECTION}/{JOBS}")


@router.get("")
async def list_jobs(request: Request, visit: Visitor, paging: Paging) -> HTMLResponse:
    found = await visit.api.jobs.list_all(skip=paging.skip, limit=ROWS)

    def address_of_page(page: int | None) -> str:
        return visit.address(SECTION, JOBS, page=page)

    return render_page(
        request,
        "jobs.html",
        part="_jobs.html",
        found=found,
        paging=paging,
        address_of_page=address_of_page,
        address_of_list=address_of_page(paging.page if paging.page > 1 else None),
        changes_by_itself=any(job.status == "running" for job in found.jobs),
    )


@router.get("/{kb_id}/{job_id}")
async def show_job(
    request: Request, visit: Visitor, kb_id: str, job_id: str, *, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    kb, job = await run_two_or_cancel(visit.api.knowledge_bases.get(kb_id), visit.api.jobs.get(kb_id, job_id=job_id))
    return render_page(
        request,
        "job.html",
        part="_job.html",
        kb=kb,
        job=job,
        done=done,
        changes_by_itself=job.status == "running",
    )


@router.post("/{kb_id}/{job_id}/cancel")
async def cancel(visit: Visitor, kb_id: str, job_id: str) -> Response:
    await visit.api.jobs.cancel(kb_id, job_id=job_id)
    return RedirectResponse(visit.address(SECTION, JOBS, kb_id, job_id, done="cancelled"), 303)
