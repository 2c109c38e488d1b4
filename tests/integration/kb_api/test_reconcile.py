"""Requests to the reconciler: stored as plans, shown, applied, and only to their organization."""

from datetime import timedelta
from typing import Any

import pytest

from kb_shared.mongo import reconcile_passes, reconcile_plans
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope, PlanState
from kb_shared.mongo.stored_time import now
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient


@pytest.fixture
async def kb_id(organization: OrganizationClient) -> str:
    await organization.tag("a")
    return str((await organization.create(tag_ids=["a"]))["kb_id"])


async def stop(organization: OrganizationClient, kb_id: str, *repairs: PlannedRepair) -> str:
    """Store the plan of a pass that stopped."""
    plan = await reconcile_plans.create_stopped(
        organization.database,
        PlanScope(organization.organization_id, kb_id),
        found={"stale": len(repairs)},
        repairs=repairs,
    )
    return plan.plan_id


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_request_becomes_a_plan_for_what_it_names(
    organization: OrganizationClient, kb_id: str, *, dry_run: bool
) -> None:
    paths: dict[str, tuple[str | None, str | None]] = {
        "/reconcile": (None, None),
        f"/knowledge-bases/{kb_id}/reconcile": (kb_id, None),
        f"/knowledge-bases/{kb_id}/documents/d1/reconcile": (kb_id, "d1"),
    }
    for path, scope in paths.items():
        answer = await organization.request("POST", path, dry_run=dry_run)
        plan = answer.json()
        assert (answer.status_code, plan["state"], plan["dry_run"]) == (202, "requested", dry_run)
        assert (plan["kb_id"], plan["document_id"]) == scope
    claimed = await reconcile_plans.find_page(organization.database, organization.organization_id, skip=0, limit=10)
    assert claimed[1] == len(paths)


async def test_an_unknown_knowledge_base_or_plan_is_404(organization: OrganizationClient) -> None:
    unknown = "0" * 24
    for method, path in (
        ("POST", f"/knowledge-bases/{unknown}/reconcile"),
        ("POST", f"/knowledge-bases/{unknown}/documents/d/reconcile"),
        ("GET", f"/reconcile/plans/{unknown}"),
        ("POST", f"/reconcile/plans/{unknown}/apply"),
    ):
        assert (await organization.request(method, path)).status_code == 404, path


async def test_a_plan_shows_its_repairs_by_pages_with_problem_and_repair(
    organization: OrganizationClient, kb_id: str
) -> None:
    repairs = [PlannedRepair(kb_id, "stale", f"d{n:02}") for n in range(12)]
    plan_id = await stop(organization, kb_id, *repairs, PlannedRepair(kb_id, "wrong_totals"))

    first = await organization.ok("GET", f"/reconcile/plans/{plan_id}", limit=5)
    last = await organization.ok("GET", f"/reconcile/plans/{plan_id}", skip=12, limit=5)

    assert (first["total_count"], [repair["document_id"] for repair in first["repairs"]]) == (
        13,
        [f"d{n:02}" for n in range(5)],
    )
    assert [(repair["kind"], repair["document_id"]) for repair in last["repairs"]] == [("wrong_totals", None)]
    assert "no tag of the KB" in first["repairs"][0]["problem"]
    assert "command to the indexer" in first["repairs"][0]["repair"]
    assert first["stale_documents"] == {"count": 13, "examples": [f"d{n:02}" for n in range(10)]}
    assert first["missing_documents"] == first["orphaned_vectors"] == {"count": 0, "examples": []}


async def test_only_a_plan_that_waits_is_applied_and_only_once(organization: OrganizationClient, kb_id: str) -> None:
    plan_id = await stop(organization, kb_id, PlannedRepair(kb_id, "stale", "d1"))
    applied = await organization.request("POST", f"/reconcile/plans/{plan_id}/apply")
    assert (applied.status_code, applied.json()["state"]) == (202, "approved")
    assert applied.json()["approved_by"] is not None

    assert await organization.refused("POST", f"/reconcile/plans/{plan_id}/apply") == (409, "plan-not-waiting")


async def test_plans_and_passes_are_listed_newest_first_and_only_to_their_organization(
    organization: OrganizationClient, kb_id: str, new_organization: NewOrganization
) -> None:
    stranger = await new_organization()
    older, newer = [await stop(organization, kb_id, PlannedRepair(kb_id, "stale", "d1")) for _ in range(2)]
    made = ReconcilePass(
        organization_id=organization.organization_id,
        kind="full",
        started_at=now(),
        finished_at=now(),
        knowledge_bases=1,
        found={"stale": 1},
    )
    await reconcile_passes.add(organization.database, [made])

    plans = await organization.ok("GET", "/reconcile/plans")
    passes = await organization.ok("GET", "/reconcile/passes")

    assert [plan["plan_id"] for plan in plans["plans"]] == [newer, older]
    assert [(each["kind"], each["found"], each["stopped"]) for each in passes["passes"]] == [("full", {"stale": 1}, {})]
    for path, name in (("/reconcile/plans", "plans"), ("/reconcile/passes", "passes")):
        assert (await stranger.ok("GET", path))[name] == []
    assert (await stranger.request("GET", f"/reconcile/plans/{newer}")).status_code == 404
    assert (await stranger.request("POST", f"/reconcile/plans/{newer}/apply")).status_code == 404
    stored = await reconcile_plans.find(organization.database, organization.organization_id, plan_id=newer)
    assert stored is not None
    assert stored.state is PlanState.STOPPED


async def test_what_is_over_is_shown_with_its_outcome(organization: OrganizationClient, kb_id: str) -> None:
    answer: dict[str, Any] = await organization.ok("POST", f"/knowledge-bases/{kb_id}/reconcile")
    plan = await reconcile_plans.claim(organization.database, owner="r", lease=timedelta(minutes=1))
    while plan is not None and plan.plan_id != answer["plan_id"]:
        plan = await reconcile_plans.claim(organization.database, owner="r", lease=timedelta(minutes=1))
    assert plan is not None
    await reconcile_plans.finish(
        organization.database,
        plan,
        owner="r",
        state=PlanState.DONE,
        found={"missing": 2},
        repaired={"missing": 1},
        skipped=[kb_id],
        error=None,
    )
    shown = await organization.ok("GET", f"/reconcile/plans/{plan.plan_id}")
    assert (shown["state"], shown["found"], shown["repaired"]) == ("done", {"missing": 2}, {"missing": 1})
    assert (shown["skipped"], shown["finished_at"] is not None) == ([kb_id], True)
    assert shown["missing_documents"] == {"count": 2, "examples": []}
