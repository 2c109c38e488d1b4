"""Checks of reconciliation: plans, passes, and what is repaired."""

from typing import Any

from kb_shared.mongo import reconcile_plans
from kb_shared.mongo.database import Row
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    CHANGING,
    TRAVEL,
    StockedOrganization,
)

NEW_PLAN: Row = {
    "state": "requested",
    "found": {},
    "repaired": {},
    "slices": 0,
    "compared": 0,
    "skipped": [],
    "approved_by": None,
    "finished_at": None,
    "error": None,
}


async def stored_plan(organization: StockedOrganization, plan_id: str) -> Row:
    return NEW_PLAN | await organization.row("reconcile_plans", _id=plan_id)


@checks("knowledge_bases.reconcile")
async def check_reconcile(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_bases.reconcile(organization.kb_id, dry_run=True)
    await _assert_requested(organization, answer, kb_id=organization.kb_id)


@checks("knowledge_bases.reconcile_document")
async def check_reconcile_document(organization: StockedOrganization) -> None:
    kb_id = organization.kb_id
    answer = await organization.client.knowledge_bases.reconcile_document(kb_id, document_id=TRAVEL, dry_run=True)
    await _assert_requested(organization, answer, kb_id=kb_id, document_id=TRAVEL)


@checks("reconcile.start")
async def check_start_reconciling(organization: StockedOrganization) -> None:
    await _assert_requested(organization, await organization.client.reconcile.start(dry_run=True))


async def _assert_requested(organization: StockedOrganization, answer: Any, **scope: str) -> None:
    """Compare a new plan with its row, which the reconciler changes from then on, and wait for its end."""
    stored = await stored_plan(organization, answer.plan_id)
    assert_shows(answer, stored | NEW_PLAN, names={"plan_id": "_id"})
    whole_organization = {"kb_id": None, "document_id": None}
    assert_holds(stored, requested_by=organization.key_id, dry_run=True, **whole_organization | scope)
    await organization.until_row("reconcile_plans", _id=answer.plan_id, state={"$in": ["planned", "done"]})
    ended = await organization.client.reconcile.get_plan(answer.plan_id)
    row = await stored_plan(organization, answer.plan_id)
    assert (ended.state, ended.found, ended.compared) == (row["state"], row["found"], row["compared"])
    assert ended.found == {}


@checks("reconcile.list_passes")
async def check_list_passes(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.reconcile.list_passes(limit=100), lambda: organization.rows("reconcile_passes")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["started_at"].timestamp(), row["_id"]))
    for made, row in zip(answer.passes, newest_first, strict=True):
        assert_shows(made, row)


@checks("reconcile.list_plans")
async def check_list_plans(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.reconcile.list_plans(limit=100), lambda: organization.rows("reconcile_plans")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["created_at"].timestamp(), row["_id"]))
    for plan, row in zip(answer.plans, newest_first, strict=True):
        assert_shows(plan, NEW_PLAN | row, names={"plan_id": "_id"})


@checks("reconcile.get_plan")
async def check_get_plan(organization: StockedOrganization) -> None:
    answer = await organization.client.reconcile.get_plan(organization.plan_id)
    [repair] = await organization.rows("reconcile_repairs", plan_id=organization.plan_id)
    nothing = {"count": 0, "examples": []}
    derived = {
        "missing_documents": nothing,
        "stale_documents": {"count": 1, "examples": [repair["document_id"]]},
        "orphaned_vectors": nothing,
        "missing_embeddings": nothing,
        "repairs": answer.repairs,
        "total_count": 1,
    }
    assert_shows(answer, await stored_plan(organization, organization.plan_id) | derived, names={"plan_id": "_id"})
    [shown] = answer.repairs
    described = {"problem": shown.problem, "repair": shown.repair}
    assert_shows(shown, repair | described)


@checks("reconcile.apply_plan")
async def check_apply_plan(organization: StockedOrganization) -> None:
    """The document is compared again first, and nothing is wrong with it."""
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    plan = await reconcile_plans.create_stopped(
        organization.database,
        PlanScope(organization.organization_id, kb_id),
        found={"stale": 1},
        repairs=[PlannedRepair(kb_id, "stale", CHANGING)],
    )
    answer = await organization.client.reconcile.apply_plan(plan.plan_id)
    stored = await stored_plan(organization, plan.plan_id)
    approved = {"state": "approved", "approved_by": organization.key_id, "found": {"stale": 1}}
    assert_shows(answer, stored | NEW_PLAN | approved, names={"plan_id": "_id"})
    assert_holds(stored, approved_by=organization.key_id)
    done = await organization.until_row("reconcile_plans", _id=plan.plan_id, state="done")
    assert (done.get("repaired"), done.get("error")) == ({}, None)
