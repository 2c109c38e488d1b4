"""Actions on several knowledge bases, each with an outcome of its own."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_console.addresses import LIST, OF_ORGANIZATION
from kb_console.administration.organization_settings import list_knowledge_base_names
from kb_console.dependencies import Visitor
from kb_console.pages import render_page
from kb_contracts.api.knowledge_base_batches import KnowledgeBaseAction
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel

ACTIONS: Final[dict[KnowledgeBaseAction, str]] = {
    "pause": "Pause indexing",
    "resume": "Resume indexing",
    "reindex": "Index all again",
    "retry_failed": "Retry failed documents",
}
_MOST: Final = 100

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{LIST}")


@router.get("/batch")
async def confirm(
    request: Request,
    visit: Visitor,
    action: KnowledgeBaseAction,
    kb_ids: Annotated[list[str], Query(alias="kb", default_factory=list, max_length=_MOST)],
) -> Response:
    if not kb_ids:
        return RedirectResponse(visit.address(LIST, done="none_selected"), 303)
    kbs = await run_all_or_cancel([visit.api.knowledge_bases.get(kb_id) for kb_id in kb_ids])
    return render_page(request, "batch.html", action=action, words=ACTIONS[action], kbs=kbs)


@router.post("/batch")
async def carry_out(
    request: Request,
    visit: Visitor,
    action: Annotated[KnowledgeBaseAction, Form()],
    kb_ids: Annotated[list[str], Form(alias="kb", min_length=1, max_length=_MOST)],
) -> HTMLResponse:
    outcomes = await visit.api.knowledge_bases.batch([{"kb_id": kb_id, "action": action} for kb_id in kb_ids])
    names = dict(await list_knowledge_base_names(visit.api))
    return render_page(request, "batch_outcomes.html", words=ACTIONS[action], done=outcomes, names=names)
