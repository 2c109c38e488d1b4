"""Sources of knowledge: what is fetched, when, and what became of it."""

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData, UploadFile

from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.knowledge.source_form import KINDS, SourceForm
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_console.status_words import OF_SOURCE_RUN
from kb_console.uploads import safe_name
from kb_contracts.api.knowledge_sources import SourceKindName, SourcePreview
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel

_SOURCES: Final = (KNOWLEDGE, "sources")
_SOURCE = "/knowledge/sources/{source_id}"
_UNFINISHED: Final = frozenset({"waiting", "running"})
_MOST_SERVERS: Final = 100
_Done = Annotated[str, Query(max_length=40)]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge/sources")
async def list_sources(request: Request, visit: Visitor, *, paging: Paging, done: _Done = "") -> HTMLResponse:
    found = await visit.api.knowledge_sources.list(skip=paging.skip, limit=ROWS)
    return render_page(
        request,
        "sources.html",
        found=found,
        paging=paging,
        done=done,
        kinds=KINDS,
        status_of_run=OF_SOURCE_RUN,
        address_of_page=lambda page: visit.address(*_SOURCES, page=page),
    )


@router.get("/knowledge/sources/new")
async def show_form(request: Request, visit: Visitor, kind: SourceKindName = "url_crawl") -> HTMLResponse:
    return await _render_form(request, visit, SourceForm(kind=kind))


@router.post("/knowledge/sources/uploads")
async def create(request: Request, visit: Visitor) -> Response:
    """Create a source. The path is that of uploads, because the form may have a file."""
    async with request.form(max_files=1, max_fields=20) as sent:
        form = SourceForm.from_form(sent)
        try:
            form = await _store_file(visit, form, sent)
            created = await visit.api.knowledge_sources.create(
                kind=form.kind,  # type: ignore[arg-type]  # one of the kinds, or `config` has refused it
                **form.changeable(),
            )
        except (UnusableForm, ApiError) as error:
            return await _render_form(request, visit, form, problem=_describe(error))
    return RedirectResponse(visit.address(*_SOURCES, created.source_id, done="created"), 303)


@router.get(_SOURCE)
async def show(request: Request, visit: Visitor, source_id: str, *, paging: Paging, done: _Done = "") -> HTMLResponse:
    return await _render(request, visit, source_id, page=paging, done=done)


@router.post(_SOURCE + "/uploads")
async def save(request: Request, visit: Visitor, source_id: str) -> Response:
    async with request.form(max_files=1, max_fields=20) as sent:
        form = SourceForm.from_form(sent)
        try:
            form = await _store_file(visit, form, sent)
            await visit.api.knowledge_sources.update(source_id, **form.changeable())
        except (UnusableForm, ApiError) as error:
            return await _render(request, visit, source_id, form=form, problem=_describe(error))
    return RedirectResponse(visit.address(*_SOURCES, source_id, done="saved"), 303)


@router.post(_SOURCE + "/run")
async def run(visit: Visitor, source_id: str) -> Response:
    await visit.api.knowledge_sources.run(source_id)
    return RedirectResponse(visit.address(*_SOURCES, source_id, done="running"), 303)


@router.post(_SOURCE + "/runs/{run_id}/cancel")
async def cancel(visit: Visitor, source_id: str, run_id: str) -> Response:
    await visit.api.knowledge_sources.cancel_run(source_id, source_run_id=run_id)
    return RedirectResponse(visit.address(*_SOURCES, source_id, done="cancelled"), 303)


@router.post(_SOURCE + "/preview")
async def preview(request: Request, visit: Visitor, source_id: str) -> HTMLResponse:
    """Show the first items as the source would read them now. Nothing is stored."""
    try:
        found = await visit.api.knowledge_sources.preview(source_id)
    except KbClientError as error:
        return await _render(request, visit, source_id, problem=_describe(error))
    return await _render(request, visit, source_id, preview=found)


@router.get(_SOURCE + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, source_id: str) -> HTMLResponse:
    return await _render(request, visit, source_id, template="source_delete.html")


@router.post(_SOURCE + "/delete")
async def delete(visit: Visitor, source_id: str) -> Response:
    await visit.api.knowledge_sources.delete(source_id)
    return RedirectResponse(visit.address(*_SOURCES, done="deleted"), 303)


def _describe(error: UnusableForm | KbClientError) -> ShownProblem:
    problem = describe_refusal(error)
    # The form has the fields of the configuration beside the others.
    return replace(problem, fields={name.removeprefix("config."): said for name, said in problem.fields.items()})


async def _store_file(visit: Visit, form: SourceForm, sent: FormData) -> SourceForm:
    """Return the form with the id of the file that was sent with it, if there is one."""
    file = sent.get("file")
    if form.kind != "file_upload" or not isinstance(file, UploadFile) or not file.filename:
        if form.kind == "file_upload" and not form.file_id:
            raise UnusableForm({"file": "Choose a file first"})
        return form
    stored = await visit.api.knowledge_sources.upload_file(safe_name(file.filename), await file.read())
    return replace(form, filename=stored.filename, file_id=stored.file_id)


async def _render_form(
    request: Request, visit: Visit, form: SourceForm, *, problem: ShownProblem | None = None
) -> HTMLResponse:
    servers = await visit.api.mcp_servers.list(limit=_MOST_SERVERS)
    return render_page(
        request,
        "source_new.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        kinds=KINDS,
        servers=[(each.mcp_server_id, each.label) for each in servers.mcp_servers],
        problem=problem,
    )


async def _render(
    request: Request,
    visit: Visit,
    source_id: str,
    *,
    template: str = "source.html",
    page: Any = None,
    form: SourceForm | None = None,
    problem: ShownProblem | None = None,
    preview: SourcePreview | None = None,
    done: str = "",
) -> HTMLResponse:
    source, runs, servers = await run_three_or_cancel(
        visit.api.knowledge_sources.get(source_id),
        visit.api.knowledge_sources.list_runs(source_id, skip=0 if page is None else page.skip, limit=ROWS),
        visit.api.mcp_servers.list(limit=_MOST_SERVERS),
    )
    is_working = any(each.status in _UNFINISHED for each in runs.runs)
    return render_page(
        request,
        template,
        part="_source_runs.html",
        status_code=200 if problem is None else problem.status,
        source=source,
        runs=runs,
        paging=page,
        kinds=KINDS,
        form=form or SourceForm.from_view(source),
        servers=[(each.mcp_server_id, each.label) for each in servers.mcp_servers],
        status_of_run=OF_SOURCE_RUN,
        problem=problem,
        preview=preview,
        done=done,
        changes_by_itself=is_working,
        address_here=visit.address(*_SOURCES, source_id),
        address_of_page=lambda number: visit.address(*_SOURCES, source_id, page=number),
    )
