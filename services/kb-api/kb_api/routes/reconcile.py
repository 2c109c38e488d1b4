"""Routes of reconciliation: ask for it, look at what passes and plans found, apply a plan."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from kb_api import reconcile_request
from kb_api.dependencies import Database, Reader, Writer
from kb_api.drift_descriptions import DESCRIPTIONS
from kb_api.reconcile_request import MAX_EXAMPLES, PlanDetails
from kb_shared.http.limited_keys import closed_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import reconcile_passes, reconcile_plans
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanState, ReconcilePlan

router = organization_router("reconciliation")

DryRun = Annotated[
    bool,
    Query(description="True: only list the repairs. They are made when the plan is applied. Default: false."),
]
KindCounts = Annotated[Mapping[str, int], Field(description="Number of documents by kind of drift.")]
_REFERENCE: Final = "docs/reference/drift.md describes the kinds."


class PlanView(BaseModel):
    plan_id: str
    kb_id: str | None = Field(description="Id of the knowledge base; null for all of the organization.")
    document_id: str | None = Field(description="Id of the document; null for all documents.")
    dry_run: bool = Field(description="Whether only a list of repairs was requested.")
    state: PlanState = Field(
        description="`requested` and `approved` wait for the reconciler, `running` is being executed. `planned` and"
        " `stopped` wait for `apply`: a dry run, or a plan that would remove too many documents. `done` and `failed`"
        " are over."
    )
    found: KindCounts
    repaired: KindCounts
    slices: int = Field(description="Expected number of slices of up to 1,000 documents; 0 before it begins.")
    compared: int = Field(description="Number of slices that were compared so far.")
    skipped: list[str] = Field(description="Knowledge bases that were not compared, because they are not active.")
    requested_by: str | None = Field(description="Id of the API key; null if a scheduled pass stopped.")
    approved_by: str | None = Field(description="Id of the API key that applied the plan; null before that.")
    created_at: datetime
    finished_at: datetime | None = Field(description="Time at which the reconciler was done; null before that.")
    error: str | None = Field(description="Type of the error if the plan failed.")

    @classmethod
    def from_plan(cls, plan: ReconcilePlan) -> "PlanView":
        return cls(**_fields_of(plan))


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


class DriftedDocuments(BaseModel):
    count: int = Field(description="Number of documents.")
    examples: list[str] = Field(description=f"Ids of up to {MAX_EXAMPLES} of them, if the plan lists repairs.")


class RepairView(BaseModel):
    kb_id: str
    kind: str = Field(description=f"Kind of drift. {_REFERENCE}")
    document_id: str | None = Field(description="Id of the document; null if the knowledge base as a whole has drift.")
    problem: str = Field(description="Description of what is wrong.")
    repair: str = Field(description="Description of what repairs it.")

    @classmethod
    def from_repair(cls, repair: PlannedRepair) -> "RepairView":
        described = DESCRIPTIONS[repair.kind]
        return cls(
            kb_id=repair.kb_id,
            kind=repair.kind,
            document_id=repair.document_id,
            problem=described.problem,
            repair=described.repair,
        )


class PlanWithRepairs(PlanView):
    missing_documents: DriftedDocuments = Field(description="Documents that should be indexed and are not.")
    stale_documents: DriftedDocuments = Field(
        description="Documents that are indexed although they were deleted or have no tag of the knowledge base."
    )
    orphaned_vectors: DriftedDocuments = Field(description="Documents that are not indexed and have chunks.")
    missing_embeddings: DriftedDocuments = Field(
        description="Documents with chunks whose vectors are not in the embedding cache."
    )
    repairs: list[RepairView] = Field(
        description="Page of the repairs that wait for `apply`, by knowledge base, kind and document."
    )
    total_count: int = Field(description="Number of repairs on all pages.")

    @classmethod
    def from_details(cls, details: PlanDetails) -> "PlanWithRepairs":
        return cls(
            **_fields_of(details.plan),
            **{
                name: DriftedDocuments(count=details.plan.found.get(kind, 0), examples=details.examples[kind])
                for name, kind in _SUMMARIES.items()
            },
            repairs=[RepairView.from_repair(repair) for repair in details.repairs],
            total_count=details.total_count,
        )


_SUMMARIES: Final = {
    "missing_documents": "missing",
    "stale_documents": "stale",
    "orphaned_vectors": "orphan_vectors",
    "missing_embeddings": "missing_embedding",
}


class PlanList(BaseModel):
    plans: list[PlanView]
    total_count: int = Field(description="Number of items on all pages.")


class PassView(BaseModel):
    kind: Literal["full", "incremental"] = Field(description="Kind of pass.")
    started_at: datetime
    finished_at: datetime
    knowledge_bases: int = Field(description="Number of knowledge bases of the organization that were compared.")
    found: KindCounts
    repaired: KindCounts
    stopped: Mapping[str, int] = Field(
        description="Number of documents by kind that were not removed, because they were too many. A plan lists them."
    )

    @classmethod
    def from_pass(cls, made: ReconcilePass) -> "PassView":
        return cls(
            kind="full" if made.kind == "full" else "incremental",
            started_at=made.started_at,
            finished_at=made.finished_at,
            knowledge_bases=made.knowledge_bases,
            found=made.found,
            repaired=made.repaired,
            stopped=made.stopped,
        )


class PassList(BaseModel):
    passes: list[PassView]
    total_count: int = Field(description="Number of items on all pages.")


@router.post(
    "/knowledge-bases/{kb_id}/reconcile",
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
    return PlanView.from_plan(
        await reconcile_request.request(database, caller, kb_id=kb_id, dry_run=dry_run, answer=PlanView.from_plan)
    )


@router.post(
    "/knowledge-bases/{kb_id}/documents/{document_id}/reconcile",
    summary="Reconcile a document",
    status_code=202,
    response_model=PlanView,
)
@closed_to_limited_keys
async def reconcile_document(
    database: Database, caller: Writer, kb_id: str, document_id: str, *, dry_run: DryRun = False
) -> PlanView:
    """Compare one document in a knowledge base with what it should be, and repair it."""
    return PlanView.from_plan(
        await reconcile_request.request(
            database, caller, kb_id=kb_id, document_id=document_id, dry_run=dry_run, answer=PlanView.from_plan
        )
    )


@router.post("/reconcile", summary="Reconcile all knowledge bases", status_code=202, response_model=PlanView)
async def reconcile_organization(database: Database, caller: Writer, *, dry_run: DryRun = False) -> PlanView:
    """Compare and repair all knowledge bases of the organization."""
    return PlanView.from_plan(
        await reconcile_request.request(database, caller, dry_run=dry_run, answer=PlanView.from_plan)
    )


@router.get("/reconcile/passes", summary="List passes of the reconciler", response_model=PassList)
async def list_passes(database: Database, caller: Reader, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> PassList:
    """List the scheduled passes, newest first: full ones, and incremental ones that found drift. Kept for 30 days."""
    passes, total_count = await reconcile_passes.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return PassList(passes=[PassView.from_pass(made) for made in passes], total_count=total_count)


@router.get("/reconcile/plans", summary="List plans of the reconciler", response_model=PlanList)
async def list_plans(database: Database, caller: Reader, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> PlanList:
    """List the plans of the organization, newest first. They are kept for 30 days."""
    plans, total_count = await reconcile_plans.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return PlanList(plans=[PlanView.from_plan(plan) for plan in plans], total_count=total_count)


@router.get("/reconcile/plans/{plan_id}", summary="Get a plan with its repairs", response_model=PlanWithRepairs)
async def get_plan(
    database: Database, caller: Reader, plan_id: str, *, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT
) -> PlanWithRepairs:
    """Return what a plan found, and the repairs that wait for `apply`."""
    details = await reconcile_request.get_details(database, caller, plan_id=plan_id, skip=skip, limit=limit)
    return PlanWithRepairs.from_details(details)


@router.post(
    "/reconcile/plans/{plan_id}/apply",
    summary="Apply a plan",
    status_code=202,
    response_model=PlanView,
    responses=responses(409),
)
async def apply_plan(database: Database, caller: Writer, plan_id: str) -> PlanView:
    """Make the repairs that a plan lists, however many documents they remove.

    Each document is compared again first: what is no longer wrong is left alone.
    """
    return PlanView.from_plan(await reconcile_request.apply(database, caller, plan_id=plan_id))
