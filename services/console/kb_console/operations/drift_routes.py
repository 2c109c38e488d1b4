"""Drift: what the reconciler found and repaired, and checks that list what they would repair."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.operations.operation_words import APPLICABLE_PLANS, UNFINISHED_PLANS, status_of_plan
from kb_console.operations.operations_routes import SECTION
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.reconcile import PlanView
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel

DRIFT: Final = "drift"
_PASSES: Final = 10
_CHOICES: Final = 100
_LONGEST_ID: Final = 200

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SECTION}/{DRIFT}")


@router.get("")
async def show(request: Request, visit: Visitor, paging: Paging) -> HTMLResponse:
    passes, plans, kbs = await run_three_or_cancel(
        visit.api.reconcile.list_passes(limit=_PASSES),
        visit.api.reconcile.list_plans(skip=paging.skip, limit=ROWS),
        visit.api.knowledge_bases.list(sort="name", limit=_CHOICES),
    )
    return render_page(
        request,
        "drift.html",
        part="_drift.html",
        passes=passes.passes,
        plans=plans,
        names={kb.kb_id: kb.name for kb in kbs.knowledge_bases},
        choices=[("", "all"), *((kb.kb_id, kb.name) for kb in kbs.knowledge_bases)],
        paging=paging,
        address_of_page=lambda page: visit.address(SECTION, DRIFT, page=page),
        status_of_plan=status_of_plan,
        changes_by_itself=any(plan.state in UNFINISHED_PLANS for plan in plans.plans),
    )


@router.post("/check")
async def check(
    visit: Visitor,
    *,
    kb_id: Annotated[str, Form(max_length=_LONGEST_ID)] = "",
    document_id: Annotated[str, Form(max_length=_LONGEST_ID)] = "",
) -> Response:
    plan = await _check(visit, kb_id=kb_id.strip(), document_id=document_id.strip())
    return RedirectResponse(visit.address(SECTION, DRIFT, "plans", plan.plan_id), 303)


async def _check(visit: Visit, *, kb_id: str, document_id: str) -> PlanView:
    """Request a list of what would be repaired; nothing is."""
    if kb_id and document_id:
        return await visit.api.knowledge_bases.reconcile_document(kb_id, document_id=document_id, dry_run=True)
    if kb_id:
        return await visit.api.knowledge_bases.reconcile(kb_id, dry_run=True)
    return await visit.api.reconcile.start(dry_run=True)


@router.get("/plans/{plan_id}")
async def show_plan(
    request: Request,
    visit: Visitor,
    plan_id: str,
    *,
    paging: Paging,
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    plan = await visit.api.reconcile.get_plan(plan_id, skip=paging.skip, limit=ROWS)
    kb = await _find_knowledge_base(visit, plan.kb_id) if plan.kb_id is not None else None

    def address_of_page(page: int | None) -> str:
        return visit.address(SECTION, DRIFT, "plans", plan_id, page=page)

    return render_page(
        request,
        "drift_plan.html",
        part="_drift_plan.html",
        plan=plan,
        kb=kb,
        paging=paging,
        done=done,
        status_of_plan=status_of_plan,
        is_applicable=plan.state in APPLICABLE_PLANS,
        address_of_page=address_of_page,
        address_here=address_of_page(paging.page if paging.page > 1 else None),
        changes_by_itself=plan.state in UNFINISHED_PLANS,
    )


async def _find_knowledge_base(visit: Visit, kb_id: str) -> KnowledgeBaseView | None:
    """Return the knowledge base of a plan; None if it was deleted meanwhile, because plans outlive it."""
    try:
        return await visit.api.knowledge_bases.get(kb_id)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


@router.get("/plans/{plan_id}/apply")
async def confirm_plan(request: Request, visit: Visitor, plan_id: str) -> HTMLResponse:
    plan = await visit.api.reconcile.get_plan(plan_id, limit=1)
    return render_page(request, "apply_plan.html", plan=plan, is_applicable=plan.state in APPLICABLE_PLANS)


@router.post("/plans/{plan_id}/apply")
async def apply_plan(visit: Visitor, plan_id: str) -> Response:
    await visit.api.reconcile.apply_plan(plan_id)
    return RedirectResponse(visit.address(SECTION, DRIFT, "plans", plan_id, done="applied"), 303)
