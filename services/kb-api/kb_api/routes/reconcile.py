"""Routes of reconciliation: ask for it, look at what passes and plans found, apply a plan."""

from typing import Annotated, Final

from fastapi import Query

from kb_api import reconcile_request
from kb_api.dependencies import Database, Reader, Writer
from kb_api.drift_descriptions import DESCRIPTIONS
from kb_api.reconcile_request import PlanDetails
from kb_contracts.api.reconcile import (
    DriftedDocuments,
    PassList,
    PassView,
    PlanList,
    PlanView,
    PlanWithRepairs,
    RepairView,
)
from kb_shared.http.limited_keys import closed_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import reconcile_passes, reconcile_plans
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlannedRepair, ReconcilePlan

router = organization_router("reconciliation")

DryRun = Annotated[
    bool,
    Query(description="True: only list the repairs. They are made when the plan is applied. Default: false."),
]


_SUMMARIES: Final = {
    "missing_documents": "missing",
    "stale_documents": "stale",
    "orphaned_vectors": "orphan_vectors",
    "missing_embeddings": "missing_embedding",
}


@router.post(
    "/knowledge-bases/{kb_id}/reconcile",
    operation_id="knowledge_bases.reconcile",
    summary="Reconcile a knowledge base",
    status_code=202,
    response_model=PlanView,
)
async def reconcile_knowledge_base(
    database: Database, caller: Writer, kb_id: str, *, dry_run: DryRun = False
) -> PlanView:
    """Compare all documents and chunks of a knowledge base, and repair what differs from what it should be.

    The answer comes at once. Get the plan to see what was found.
    """
    return _view(await reconcile_request.request(database, caller, kb_id=kb_id, dry_run=dry_run, answer=_view))


@router.post(
    "/knowledge-bases/{kb_id}/documents/{document_id}/reconcile",
    operation_id="knowledge_bases.reconcile_document",
    summary="Reconcile a document",
    status_code=202,
    response_model=PlanView,
)
@closed_to_limited_keys
async def reconcile_document(
    database: Database, caller: Writer, kb_id: str, document_id: str, *, dry_run: DryRun = False
) -> PlanView:
    """Compare one document in a knowledge base with what it should be, and repair it."""
    return _view(
        await reconcile_request.request(
            database, caller, kb_id=kb_id, document_id=document_id, dry_run=dry_run, answer=_view
        )
    )


@router.post(
    "/reconcile",
    operation_id="reconcile.start",
    summary="Reconcile all knowledge bases",
    status_code=202,
    response_model=PlanView,
)
async def reconcile_organization(database: Database, caller: Writer, *, dry_run: DryRun = False) -> PlanView:
    """Compare and repair all knowledge bases of the organization."""
    return _view(await reconcile_request.request(database, caller, dry_run=dry_run, answer=_view))


@router.get(
    "/reconcile/passes",
    operation_id="reconcile.list_passes",
    summary="List passes of the reconciler",
    response_model=PassList,
)
async def list_passes(database: Database, caller: Reader, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> PassList:
    """List the scheduled passes, newest first: full ones, and incremental ones that found drift. Kept for 30 days."""
    passes, total_count = await reconcile_passes.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return PassList(passes=[_pass_view(made) for made in passes], total_count=total_count)


@router.get(
    "/reconcile/plans",
    operation_id="reconcile.list_plans",
    summary="List plans of the reconciler",
    response_model=PlanList,
)
async def list_plans(database: Database, caller: Reader, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> PlanList:
    """List the plans of the organization, newest first. They are kept for 30 days."""
    plans, total_count = await reconcile_plans.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return PlanList(plans=[_view(plan) for plan in plans], total_count=total_count)


@router.get(
    "/reconcile/plans/{plan_id}",
    operation_id="reconcile.get_plan",
    summary="Get a plan with its repairs",
    response_model=PlanWithRepairs,
)
async def get_plan(
    database: Database, caller: Reader, plan_id: str, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> PlanWithRepairs:
    """Return what a plan found, and the repairs that wait for `apply`."""
    details = await reconcile_request.get_details(database, caller, plan_id=plan_id, skip=skip, limit=limit)
    return _view_with_repairs(details)


@router.post(
    "/reconcile/plans/{plan_id}/apply",
    operation_id="reconcile.apply_plan",
    summary="Apply a plan",
    status_code=202,
    response_model=PlanView,
    responses=responses("plan-not-waiting"),
)
async def apply_plan(database: Database, caller: Writer, plan_id: str) -> PlanView:
    """Make the repairs that a plan lists, however many documents they remove.

    Each document is compared again first: what is no longer wrong is left alone.
    """
    return _view(await reconcile_request.apply(database, caller, plan_id=plan_id))


def _view(plan: ReconcilePlan) -> PlanView:
    return PlanView(**_fields_of(plan))


def _fields_of(plan: ReconcilePlan) -> dict[str, object]:
    return {
        "plan_id": plan.plan_id,
        "kb_id": plan.kb_id,
        "document_id": plan.document_id,
        "dry_run": plan.dry_run,
        "state": plan.state,
        "found": plan.found,
        "repaired": plan.repaired,
        "slices": plan.slices,
        "compared": plan.compared,
        "skipped": list(plan.skipped),
        "requested_by": plan.requested_by,
        "approved_by": plan.approved_by,
        "created_at": plan.created_at,
        "finished_at": plan.finished_at,
        "error": plan.error,
    }


def _view_with_repairs(details: PlanDetails) -> PlanWithRepairs:
    drifted = {
        name: DriftedDocuments(count=details.plan.found.get(kind, 0), examples=details.examples[kind])
        for name, kind in _SUMMARIES.items()
    }
    return PlanWithRepairs(
        **_fields_of(details.plan),
        **drifted,
        repairs=[_repair_view(repair) for repair in details.repairs],
        total_count=details.total_count,
    )


def _repair_view(repair: PlannedRepair) -> RepairView:
    described = DESCRIPTIONS[repair.kind]
    return RepairView(
        kb_id=repair.kb_id,
        kind=repair.kind,
        document_id=repair.document_id,
        problem=described.problem,
        repair=described.repair,
    )


def _pass_view(made: ReconcilePass) -> PassView:
    return PassView(
        kind="full" if made.kind == "full" else "incremental",
        started_at=made.started_at,
        finished_at=made.finished_at,
        knowledge_bases=made.knowledge_bases,
        found=made.found,
        repaired=made.repaired,
        stopped=made.stopped,
    )
