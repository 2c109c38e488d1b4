"""The organization: the key of this session with its limits, its settings, and the deletion of everything."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client import AsyncClient
from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.administration.organization_settings import SETTINGS
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import render_page
from kb_console.problems import ShownProblem
from kb_contracts.api.organizations import OrganizationDeletionView, OrganizationSettingsView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel

ORGANIZATION: Final = "organization"

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SETTINGS}/{ORGANIZATION}")


@router.get("")
async def show(request: Request, visit: Visitor) -> HTMLResponse:
    who, deletion, settings = await run_three_or_cancel(
        visit.api.whoami.get(), _find_deletion(visit), _find_settings(visit)
    )
    return render_page(
        request,
        "organization.html",
        part="_organization.html",
        who=who,
        deletion=deletion,
        settings=settings,
        changes_by_itself=deletion is not None and deletion.state == "running",
    )


@router.post("/strict-metadata")
async def change_strictness(visit: Visitor, strict: Annotated[str, Form(max_length=10)] = "") -> Response:
    await visit.api.organizations.put_settings(strict_metadata=bool(strict))
    return RedirectResponse(visit.address(SETTINGS, ORGANIZATION), 303)


@router.get("/delete")
async def confirm_deletion(request: Request, visit: Visitor) -> HTMLResponse:
    return await _render_deletion(request, visit)


@router.post("/delete")
async def delete(request: Request, visit: Visitor, name: Annotated[str, Form(max_length=1_000)] = "") -> Response:
    if name.strip() != visit.session.organization_id:
        detail = "The id that you typed is not that of this organization. Nothing was deleted."
        problem = ShownProblem(422, "Not deleted", detail, {"name": "Type the id exactly as it is shown."})
        return await _render_deletion(request, visit, name=name, problem=problem)
    await visit.api.organizations.delete(confirm=visit.session.organization_id)
    return RedirectResponse(visit.address(SETTINGS, ORGANIZATION), 303)


async def _find_deletion(visit: Visit) -> OrganizationDeletionView | None:
    """Return how far the deletion is; None if none was requested, or the key may not know."""
    if not visit.session.has_scope("admin"):
        return None
    try:
        return await visit.api.organizations.get_deletion()
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def _find_settings(visit: Visit) -> OrganizationSettingsView | None:
    """Return the settings; None if the key may not see them, or a replica of an older version has none."""
    try:
        return await visit.api.organizations.get_settings()
    except ApiError as error:
        if error.status not in {403, 404}:
            raise
        return None


async def _render_deletion(
    request: Request, visit: Visit, *, name: str = "", problem: ShownProblem | None = None
) -> HTMLResponse:
    kbs, documents, agents = await _count(visit.api)
    return render_page(
        request,
        "delete_organization.html",
        status_code=200 if problem is None else problem.status,
        kb_count=kbs,
        document_count=documents,
        agent_count=agents,
        name=name,
        problem=problem,
    )


async def _count(api: AsyncClient) -> tuple[int, int, int]:
    """Return the numbers of knowledge bases, documents and agents."""
    kbs, documents, agents = await run_three_or_cancel(
        api.knowledge_bases.list(limit=1), api.documents.list(limit=1), api.agents.list(limit=1)
    )
    return kbs.total_count, documents.total_count, agents.total_count
