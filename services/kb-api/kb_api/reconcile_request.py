"""Stores requests to the reconciler as plans, and reads what came of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from kb_contracts.api.reconcile import MAX_EXAMPLES
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import knowledge_bases, reconcile_plans
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope, ReconcilePlan

_WITH_EXAMPLES: Final = ("missing", "stale", "orphan_vectors", "missing_embedding")


@dataclass(frozen=True, slots=True)
class PlanDetails:
    """Plan with a page of its repairs."""

    plan: ReconcilePlan
    repairs: Sequence[PlannedRepair]
    total_count: int
    examples: Mapping[str, Sequence[str]]
    """Documents by kind of drift."""


async def request(
    database: Database,
    caller: Caller,
    *,
    dry_run: bool,
    answer: Callable[[ReconcilePlan], BaseModel],
    kb_id: str | None = None,
    document_id: str | None = None,
) -> ReconcilePlan:
    """Store a plan, which the reconciler executes soon. Raises NotFound if there is no such KB.

    Args:
        answer: makes the answer for a repeated request.
    """
    if kb_id is not None:
        await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    scope = PlanScope(caller.organization_id, kb_id, document_id)

    async def store(session: MongoSession) -> ReconcilePlan:
        return await reconcile_plans.create(
            database, scope, dry_run=dry_run, requested_by=caller.key_id, session=session
        )

    return await commit_change(database, store, answer=answer)


async def get_details(database: Database, caller: Caller, *, plan_id: str, skip: int, limit: int) -> PlanDetails:
    """Return a plan with a page of its repairs. Raises NotFound."""
    plan = await _get(database, caller, plan_id)
    repairs, total_count = await reconcile_plans.find_repairs_page(database, plan, skip=skip, limit=limit)
    examples = {
        kind: await reconcile_plans.find_examples(database, plan, kind=kind, limit=MAX_EXAMPLES)
        for kind in _WITH_EXAMPLES
    }
    return PlanDetails(plan, repairs, total_count, examples)


async def apply(database: Database, caller: Caller, *, plan_id: str) -> ReconcilePlan:
    """Let the reconciler make the repairs of a plan.

    Raises:
        NotFound: there is no such plan.
        RequestError: 409 `plan-not-waiting`.
    """
    plan = await reconcile_plans.approve(database, caller.organization_id, plan_id=plan_id, by=caller.key_id)
    if plan is not None:
        return plan
    plan = await _get(database, caller, plan_id)
    raise RequestError(
        409,
        "plan-not-waiting",
        f"The state of this plan is `{plan.state}`; only plans in the states `planned` and `stopped` can be applied.",
    )


async def _get(database: Database, caller: Caller, plan_id: str) -> ReconcilePlan:
    plan = await reconcile_plans.find(database, caller.organization_id, plan_id=plan_id)
    if plan is None:
        raise NotFound("plan")
    return plan
