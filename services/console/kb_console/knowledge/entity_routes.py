"""Entities: what knowledge is about, each with its properties, and the record that applies to all."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.errors import UnusableForm
from kb_console.knowledge.property_lines import format_properties, parse_properties
from kb_console.pages import render_page
from kb_console.paging import ROWS
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.entities import EntityView
from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_ENTITY = "/knowledge/entities/{entity_id}"
_Done = Annotated[str, Query(max_length=40)]

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class EntityForm:
    entity_id: str = ""
    entity_type: str = ""
    properties: str = ""
    """A line for each one."""

    @classmethod
    def from_view(cls, entity: EntityView) -> "EntityForm":
        return cls(entity.entity_id, entity.entity_type, format_properties(entity.properties))


@router.get("/knowledge/entities")
async def list_entities(
    request: Request,
    visit: Visitor,
    *,
    entity_type: Annotated[str, Query(max_length=40)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    done: _Done = "",
) -> HTMLResponse:
    return await _render_list(request, visit, entity_type=entity_type, cursor=cursor, done=done)


@router.post("/knowledge/entities")
async def put(
    request: Request,
    visit: Visitor,
    *,
    entity_id: Annotated[str, Form()] = "",
    entity_type: Annotated[str, Form()] = "",
    properties: Annotated[str, Form()] = "",
    is_new: Annotated[str, Form()] = "",
) -> Response:
    """Store an entity as it was typed: properties that are not in the form are removed."""
    form = EntityForm(entity_id.strip(), entity_type.strip(), properties)
    try:
        parsed = parse_properties(properties)
        if is_new:
            await _require_new(visit, form.entity_id)
        await visit.api.entities.put(form.entity_id, entity_type=form.entity_type or None, properties=parsed)
    except (UnusableForm, ApiError) as error:
        return await _render_refused(request, visit, form, problem=describe_refusal(error), is_new=bool(is_new))
    return RedirectResponse(visit.address(KNOWLEDGE, "entities", form.entity_id, done="saved"), 303)


@router.get(_ENTITY)
async def show(request: Request, visit: Visitor, entity_id: str, done: _Done = "") -> HTMLResponse:
    if entity_id == GLOBAL_RECORD_ID:
        # It need not exist to be written.
        stored = await _find(visit, entity_id)
        form = EntityForm(entity_id) if stored is None else EntityForm.from_view(stored)
        return _render(request, form, entity=stored, entry_count=None, done=done)
    entity, entries = await run_two_or_cancel(
        visit.api.entities.get(entity_id), visit.api.knowledge_entries.list(entity_id=entity_id, limit=1)
    )
    return _render(request, EntityForm.from_view(entity), entity=entity, entry_count=entries.total_count, done=done)


@router.get(_ENTITY + "/delete")
async def confirm_deletion(request: Request, visit: Visitor, entity_id: str) -> HTMLResponse:
    entity, entries = await run_two_or_cancel(
        visit.api.entities.get(entity_id), visit.api.knowledge_entries.list(entity_id=entity_id, limit=1)
    )
    return render_page(request, "entity_delete.html", entity=entity, entry_count=entries.total_count)


@router.post(_ENTITY + "/delete")
async def delete(visit: Visitor, entity_id: str) -> Response:
    await visit.api.entities.delete(entity_id)
    return RedirectResponse(visit.address(KNOWLEDGE, "entities", done="deleted"), 303)


async def _find(visit: Visit, entity_id: str) -> EntityView | None:
    try:
        return await visit.api.entities.get(entity_id)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def _require_new(visit: Visit, entity_id: str) -> None:
    if entity_id and await _find(visit, entity_id) is not None:
        raise UnusableForm({"entity_id": "There is an entity with this id: open it to change it"})


async def _render_refused(
    request: Request, visit: Visit, form: EntityForm, *, problem: ShownProblem, is_new: bool
) -> HTMLResponse:
    if is_new:
        return await _render_list(request, visit, form=form, problem=problem)
    return _render(request, form, entity=await _find(visit, form.entity_id), entry_count=None, problem=problem)


async def _render_list(
    request: Request,
    visit: Visit,
    *,
    entity_type: str = "",
    cursor: str = "",
    form: EntityForm | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    found = await visit.api.entities.list(entity_type=entity_type or None, cursor=cursor or None, limit=ROWS)

    def address_of(**query: object) -> str:
        return visit.address(KNOWLEDGE, "entities", entity_type=entity_type, **query)

    return render_page(
        request,
        "entities.html",
        part="_entities.html",
        status_code=200 if problem is None else problem.status,
        found=found,
        entity_type=entity_type,
        cursor=cursor,
        form=form or EntityForm(),
        problem=problem,
        done=done,
        address_first=address_of(),
        address_next=address_of(cursor=found.next_cursor) if found.next_cursor else None,
    )


def _render(request: Request, form: EntityForm, *, entity: EntityView | None, **values: Any) -> HTMLResponse:
    problem = values.setdefault("problem", None)
    return render_page(
        request,
        "entity.html",
        status_code=200 if problem is None else problem.status,
        form=form,
        entity=entity,
        is_global=form.entity_id == GLOBAL_RECORD_ID,
        **{"done": "", **values},
    )
