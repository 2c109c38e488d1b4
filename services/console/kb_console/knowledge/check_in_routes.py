"""Free text: a chat model proposes knowledge, and a person reads the proposal beside the text before it is loaded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import KNOWLEDGE, OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.edit_conflicts import value_in_words
from kb_console.pages import render_page
from kb_console.paging import ROWS
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.check_ins import MAX_TEXT_CHARACTERS, CheckInView
from kb_contracts.api.knowledge_imports import ImportReport
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

_MODEL_TIMEOUT_S: Final = 180.0
"""A model writes the proposal, and may be asked again."""
_CHECK_IN = "/knowledge/check-ins/{check_in_id}"

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class ProposedItem:
    """An item of a proposal, with the name under which a form sends its choice."""

    name: str
    label: str
    detail: str


@router.get("/knowledge/structure")
async def show_form(
    request: Request, visit: Visitor, cursor: Annotated[str, Query(max_length=500)] = ""
) -> HTMLResponse:
    return await _render_form(request, visit, cursor=cursor)


@router.post("/knowledge/structure")
async def structure(
    request: Request, visit: Visitor, *, text: Annotated[str, Form()] = "", model: Annotated[str, Form()] = ""
) -> Response:
    try:
        client = visit.api.with_options(timeout_s=_MODEL_TIMEOUT_S)
        proposed = await client.knowledge.structure(text=text, model=model or None)
    except ApiError as error:
        return await _render_form(request, visit, text=text, model=model, problem=describe_refusal(error))
    return RedirectResponse(visit.address(KNOWLEDGE, "check-ins", proposed.check_in_id), 303)


@router.get(_CHECK_IN)
async def show(
    request: Request, visit: Visitor, check_in_id: str, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    return _render(request, await visit.api.check_ins.get(check_in_id), done=done)


@router.post(_CHECK_IN + "/apply")
async def apply(visit: Visitor, check_in_id: str) -> Response:
    await visit.api.check_ins.apply(check_in_id)
    return RedirectResponse(visit.address(KNOWLEDGE, "check-ins", check_in_id, done="applied"), 303)


@router.post(_CHECK_IN + "/select")
async def apply_selected(
    request: Request, visit: Visitor, check_in_id: str, item: Annotated[list[str] | None, Form()] = None
) -> HTMLResponse:
    """Load the marked items alone. The proposal stays as it is."""
    check_in = await visit.api.check_ins.get(check_in_id)
    selected = select_items(check_in.proposal, frozenset(item or ()))
    if not selected:
        problem = ShownProblem(422, "Nothing selected", "Mark the items to load first. Nothing was loaded.")
        return _render(request, check_in, problem=problem)
    try:
        report = await visit.api.knowledge.import_document(**selected)
    except ApiError as error:
        return _render(request, check_in, problem=describe_refusal(error))
    return _render(request, check_in, report=report)


def list_items(proposal: Mapping[str, Any]) -> list[ProposedItem]:
    """Return the items of a proposal in its order."""
    found = [
        ProposedItem(f"metadata/{entity_id}", f"Entity {entity_id}", value_in_words(entity.get("properties", {})))
        for entity_id, entity in (proposal.get("metadata") or {}).items()
    ]
    for number, piece in enumerate(proposal.get("pieces") or []):
        kind = str(piece.get("knowledge_type", "piece")).capitalize()
        found.append(ProposedItem(f"pieces/{number}", kind, str(piece.get("content", ""))))
    graph = proposal.get("graph") or {}
    for number, node in enumerate(graph.get("nodes") or []):
        found.append(ProposedItem(f"nodes/{number}", f"Node {node.get('node_id')}", str(node.get("label") or "")))
    for number, edge in enumerate(graph.get("edges") or []):
        ends = f"{edge.get('source_id')} → {edge.get('target_id')}"
        found.append(ProposedItem(f"edges/{number}", f"Edge {edge.get('edge_type')}", ends))
    return found


def select_items(proposal: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the document of the named items alone, as an import takes it; empty if there is none."""
    metadata = {
        entity_id: entity
        for entity_id, entity in (proposal.get("metadata") or {}).items()
        if f"metadata/{entity_id}" in names
    }
    graph = proposal.get("graph") or {}
    chosen = {
        "nodes": list(_chosen(graph.get("nodes"), "nodes", names)),
        "edges": list(_chosen(graph.get("edges"), "edges", names)),
    }
    document = {
        "metadata": metadata,
        "pieces": list(_chosen(proposal.get("pieces"), "pieces", names)),
        "graph": {name: items for name, items in chosen.items() if items},
    }
    return {name: part for name, part in document.items() if part}


def _chosen(items: list[Any] | None, section: str, names: frozenset[str]) -> Iterator[Any]:
    return (item for number, item in enumerate(items or []) if f"{section}/{number}" in names)


def _render(
    request: Request,
    check_in: CheckInView,
    *,
    report: ImportReport | None = None,
    problem: ShownProblem | None = None,
    done: str = "",
) -> HTMLResponse:
    return render_page(
        request,
        "check_in.html",
        status_code=200 if problem is None else problem.status,
        check_in=check_in,
        items=list_items(check_in.proposal),
        report=report or check_in.artifacts,
        problem=problem,
        done=done,
    )


async def _render_form(
    request: Request,
    visit: Visit,
    *,
    text: str = "",
    model: str = "",
    cursor: str = "",
    problem: ShownProblem | None = None,
) -> HTMLResponse:
    models, found = await run_two_or_cancel(
        visit.api.chat_models.list(key_present=True, limit=100),
        visit.api.check_ins.list(cursor=cursor or None, limit=ROWS),
    )
    return render_page(
        request,
        "structure.html",
        status_code=200 if problem is None else problem.status,
        models=[("", "the default of this deployment"), *((each.name, each.name) for each in models.chat_models)],
        found=found,
        text=text,
        model=model,
        cursor=cursor,
        problem=problem,
        max_characters=MAX_TEXT_CHARACTERS,
    )
