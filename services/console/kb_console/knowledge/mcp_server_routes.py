"""MCP servers, whose resources sources can read."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_client.unset import UNSET
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.mcp_servers import McpServerView

_SERVERS: Final = (KNOWLEDGE, "mcp-servers")
_SERVER = "/knowledge/mcp-servers/{mcp_server_id}"
_FormText = Annotated[str, Form()]
_Done = Annotated[str, Query(max_length=40)]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/knowledge/mcp-servers")
async def list_servers(request: Request, visit: Visitor, *, paging: Paging, done: _Done = "") -> HTMLResponse:
    return await _render_list(request, visit, paging, done=done)


@router.post("/knowledge/mcp-servers")
async def create(
    request: Request,
    visit: Visitor,
    *,
    paging: Paging,
    label: _FormText = "",
    url: _FormText = "",
    headers: _FormText = "",
) -> Response:
    try:
        created = await visit.api.mcp_servers.create(
            label=label.strip(), url=url.strip(), headers=read_headers(headers)
        )
    except (UnusableForm, ApiError) as error:
        typed = {"label": label, "url": url}
        return await _render_list(request, visit, paging, typed=typed, problem=describe_refusal(error))
    return RedirectResponse(visit.address(*_SERVERS, created.mcp_server_id, done="saved"), 303)


@router.get(_SERVER)
async def show(request: Request, visit: Visitor, mcp_server_id: str, done: _Done = "") -> HTMLResponse:
    server = await visit.api.mcp_servers.get(mcp_server_id)
    return _render(request, server, typed={"label": server.label, "url": server.url}, done=done)


@router.post(_SERVER)
async def save(
    request: Request,
    visit: Visitor,
    mcp_server_id: str,
    *,
    label: _FormText = "",
    url: _FormText = "",
    headers: _FormText = "",
    without_headers: _FormText = "",
) -> Response:
    """Change a server. Its headers are never shown: they stay unless others are given."""
    try:
        given = {} if without_headers else (read_headers(headers) or UNSET)
        await visit.api.mcp_servers.update(mcp_server_id, label=label.strip(), url=url.strip(), headers=given)
    except (UnusableForm, ApiError) as error:
        server = await visit.api.mcp_servers.get(mcp_server_id)
        return _render(request, server, typed={"label": label, "url": url}, problem=describe_refusal(error))
    return RedirectResponse(visit.address(*_SERVERS, mcp_server_id, done="saved"), 303)


@router.get(_SERVER + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, mcp_server_id: str) -> HTMLResponse:
    server = await visit.api.mcp_servers.get(mcp_server_id)
    return render_page(request, "mcp_server_delete.html", server=server, problem=None)


@router.post(_SERVER + "/delete")
async def delete(request: Request, visit: Visitor, mcp_server_id: str) -> Response:
    try:
        await visit.api.mcp_servers.delete(mcp_server_id)
    except ApiError as error:
        # A source may still read from it.
        problem = describe_refusal(error)
        server = await visit.api.mcp_servers.get(mcp_server_id)
        return render_page(
            request, "mcp_server_delete.html", status_code=problem.status, server=server, problem=problem
        )
    return RedirectResponse(visit.address(*_SERVERS, done="deleted"), 303)


def read_headers(text: str) -> dict[str, str]:
    """Return the headers in lines such as `Authorization: Bearer SECRET`.

    Raises:
        UnusableForm: a line has another form. The message does not quote it.
    """
    headers = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise UnusableForm({"headers": f"Line {number} should have the form Name: value"})
        headers[name.strip()] = value.strip()
    return headers


async def _render_list(
    request: Request,
    visit: Visit,
    paging: Paging,
    *,
    typed: dict[str, str] | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    found = await visit.api.mcp_servers.list(skip=paging.skip, limit=ROWS)
    return render_page(
        request,
        "mcp_servers.html",
        status_code=200 if problem is None else problem.status,
        found=found,
        paging=paging,
        typed=typed or {"label": "", "url": ""},
        problem=problem,
        done=done,
        address_of_page=lambda page: visit.address(*_SERVERS, page=page),
    )


def _render(
    request: Request,
    server: McpServerView,
    *,
    typed: dict[str, str],
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    return render_page(
        request,
        "mcp_server.html",
        status_code=200 if problem is None else problem.status,
        server=server,
        typed=typed,
        problem=problem,
        done=done,
    )
