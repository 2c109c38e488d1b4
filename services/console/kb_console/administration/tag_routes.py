"""Tags: what has each of them; create, rename, and delete one that nothing has."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.paging import ROWS, ListPage, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.reserved_ids import is_reserved_tag_id

TAGS: Final = "tags"
TypedName = Annotated[str, Form(max_length=1_000)]

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{TAGS}")


@router.get("")
async def list_tags(
    request: Request,
    visit: Visitor,
    *,
    paging: Paging,
    q: Annotated[str, Query(max_length=200)] = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    return await _render(request, visit, paging, q=q, done=done)


@router.post("")
async def create(request: Request, visit: Visitor, *, tag_id: TypedName = "", name: TypedName = "") -> Response:
    tag_id = tag_id.strip()
    try:
        await visit.api.tags.put(tag_id, name=name.strip() or tag_id)
    except ApiError as error:
        typed = {"tag_id": tag_id, "name": name}
        return await _render(request, visit, ListPage(1), problem=describe_refusal(error), typed=typed)
    return RedirectResponse(visit.address(SETTINGS, TAGS, done="created"), 303)


@router.post("/{tag_id}/rename")
async def rename(visit: Visitor, tag_id: str, name: TypedName = "") -> Response:
    await visit.api.tags.put_by_id(tag_id, name=name.strip())
    return RedirectResponse(visit.address(SETTINGS, TAGS, done="renamed"), 303)


@router.post("/{tag_id}/delete")
async def delete(visit: Visitor, tag_id: str) -> Response:
    await visit.api.tags.delete(tag_id)
    return RedirectResponse(visit.address(SETTINGS, TAGS, done="deleted"), 303)


async def _render(
    request: Request,
    visit: Visit,
    paging: ListPage,
    *,
    q: str = "",
    problem: ShownProblem | None = None,
    typed: dict[str, str] | None = None,
    done: str = "",
) -> HTMLResponse:
    found = await visit.api.tags.list(name_search=q or None, skip=paging.skip, limit=ROWS)
    return render_page(
        request,
        "tags.html",
        part="_tags.html",
        status_code=200 if problem is None else problem.status,
        found=found,
        paging=paging,
        q=q,
        problem=problem,
        typed=typed or {"tag_id": "", "name": ""},
        done=done,
        is_reserved=is_reserved_tag_id,
        address_of_page=lambda page: visit.address(SETTINGS, TAGS, q=q, page=page),
    )
