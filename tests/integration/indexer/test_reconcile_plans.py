"""Plans: what people ask of the reconciler is listed or repaired, whatever dies in between."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_reconciler import reconcile
from kb_reconciler.plans import PlanRunner
from kb_shared import failpoints
from kb_shared.mongo import (
    document_index,
    documents,
    index_jobs,
    knowledge_bases,
    reconcile_passes,
    reconcile_plans,
)
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope, PlanState, ReconcilePlan
from tests.integration.indexer.planted_drift import PLANTS, TEXTS, copy_chunks, lose
from tests.integration.indexer.support import Replica, Tenant, paragraph


def runner(indexer: Replica, *, owner: str = "reconciler-1", lease: timedelta = timedelta(minutes=1)) -> PlanRunner:
    return PlanRunner(indexer.passes.tools, grace=timedelta(0), owner=owner, lease=lease)


async def ask(
    kb: KnowledgeBase, database: Database, *, dry_run: bool = False, document_id: str | None = None
) -> ReconcilePlan:
    scope = PlanScope(kb.organization_id, kb.kb_id, document_id)
    return await reconcile_plans.create(database, scope, dry_run=dry_run, requested_by="key")


async def look(database: Database, plan: ReconcilePlan) -> ReconcilePlan:
    found = await reconcile_plans.find(database, plan.organization_id, plan_id=plan.plan_id)
    assert found is not None
    return found


async def listed(database: Database, plan: ReconcilePlan) -> set[PlannedRepair]:
    return {repair async for repair in reconcile_plans.iterate_repairs(database, plan)}


async def approve(database: Database, plan: ReconcilePlan) -> None:
    assert await reconcile_plans.approve(database, plan.organization_id, plan_id=plan.plan_id, by="another key")


@pytest.mark.parametrize("kind", ["missing", "orphan_vectors", "wrong_totals"])
async def test_a_dry_run_lists_drift_and_changes_nothing_until_it_is_applied(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, kind: str
) -> None:
    wanted = await PLANTS[kind](tenant, indexer, filled)
    database = tenant.database
    plan = await ask(filled, database, dry_run=True)

    assert await runner(indexer).execute_next()
    await indexer.work()

    planned = await look(database, plan)
    assert (planned.state, planned.found, planned.repaired) == (PlanState.PLANNED, {kind: 1}, {})
    assert {(repair.kb_id, repair.kind) for repair in await listed(database, plan)} == {(filled.kb_id, kind)}
    assert await tenant.jobs() == {}
    assert not await runner(indexer).execute_next()

    await approve(database, plan)
    assert await runner(indexer).execute_next()
    await indexer.work()

    done = await look(database, plan)
    assert (done.state, done.repaired) == (PlanState.DONE, {kind: 1})
    await tenant.assert_holds(filled, wanted)


async def test_a_plan_without_drift_is_done(tenant: Tenant, indexer: Replica, filled: KnowledgeBase) -> None:
    for dry_run in (True, False):
        plan = await ask(filled, tenant.database, dry_run=dry_run)
        assert await runner(indexer).execute_next()
        assert (await look(tenant.database, plan)).state is PlanState.DONE


async def test_an_applied_plan_repairs_what_it_lists_and_nothing_else(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    database = tenant.database
    await lose(indexer, tenant.deleted("d1", revision=9))
    await lose(indexer, tenant.ocr("d3", paragraph(88), revision=9))
    plan = await ask(filled, database, dry_run=True)
    await runner(indexer).execute_next()
    # Repaired meanwhile: left alone. New: not in the plan.
    await indexer.publish(tenant.ocr("d3", paragraph(89), revision=10))
    await indexer.work()
    await lose(indexer, tenant.deleted("d2", revision=9))

    await approve(database, plan)
    await runner(indexer).execute_next()
    await indexer.work()

    done = await look(database, plan)
    assert (done.state, done.repaired, done.approved_by) == (PlanState.DONE, {"stale": 1}, "another key")
    wanted = {document_id: text for document_id, text in TEXTS.items() if document_id != "d1"}
    await tenant.assert_holds(filled, wanted | {"d3": paragraph(89)})


async def test_a_plan_of_one_document_looks_at_no_other(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    for document_id in ("d1", "d2"):
        await lose(indexer, tenant.ocr(document_id, paragraph(77), revision=9))
    await copy_chunks(tenant, filled, to="ghost")

    plan = await ask(filled, tenant.database, document_id="d1")
    await runner(indexer).execute_next()
    await indexer.work()

    assert (await look(tenant.database, plan)).repaired == {"stale_text": 1}
    assert (await indexer.reconcile(filled)).found == Counter(stale_text=1, orphan_vectors=1)


async def test_a_plan_of_an_organization_covers_its_active_knowledge_bases_and_no_others(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    database = tenant.database
    stranger = Tenant(database)
    foreign = await stranger.create_kb("a")
    paused_life = await tenant.create_kb("a")
    for owner in (tenant, stranger):
        await lose(indexer, owner.ocr("new", paragraph(9)))
    await database[knowledge_bases.NAME].update_one({"_id": paused_life.kb_id}, {"$set": {"status": Status.ERROR}})

    scope = PlanScope(tenant.organization_id)
    plan = await reconcile_plans.create(database, scope, dry_run=True, requested_by="key")
    await runner(indexer).execute_next()

    planned = await look(database, plan)
    assert (planned.found, planned.skipped) == ({"missing": 1}, (paused_life.kb_id,))
    assert {repair.kb_id for repair in await listed(database, plan)} == {filled.kb_id}
    assert foreign.kb_id not in repr(planned)


# The brake.


@pytest.fixture
async def lossy(tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    """A KB of six documents, of which four are lost; a pass removes up to two."""
    monkeypatch.setattr(reconcile, "MAX_REMOVED", 2)
    return await create_lossy_kb(tenant, indexer)


async def create_lossy_kb(tenant: Tenant, indexer: Replica) -> KnowledgeBase:
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(f"m{n}", paragraph(n)) for n in range(6)))
    await indexer.work()
    await tenant.database[documents.NAME].delete_many(
        {"organization_id": tenant.organization_id, "document_id": {"$lt": "m4"}}
    )
    return await knowledge_bases.get(tenant.database, kb.key)


async def test_too_many_removals_wait_for_a_person_and_are_made_when_the_plan_is_applied(
    tenant: Tenant, indexer: Replica, lossy: KnowledgeBase
) -> None:
    database = tenant.database
    plan = await ask(lossy, database)
    await runner(indexer).execute_next()
    await indexer.work()
    stopped = await look(database, plan)
    assert (stopped.state, stopped.found, stopped.repaired) == (PlanState.STOPPED, {"stale": 4}, {})
    assert len(await listed(database, plan)) == 4
    assert await document_index.count(database, lossy.key) == 6

    await approve(database, plan)
    await runner(indexer).execute_next()
    await indexer.work()

    assert (await look(database, plan)).state is PlanState.DONE
    assert await document_index.count(database, lossy.key) == 2


async def test_a_pass_that_stops_stores_one_plan_however_often_it_comes_by(
    own_tenant: Tenant, own_indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A full pass compares all KBs of its database: those of other tests, too, where they share one.
    monkeypatch.setattr(reconcile, "MAX_REMOVED", 2)
    lossy = await create_lossy_kb(own_tenant, own_indexer)
    for _ in range(2):
        await own_indexer.full_pass()

    plans, total = await reconcile_plans.find_page(own_tenant.database, lossy.organization_id, skip=0, limit=10)
    assert total == 1
    assert (plans[0].state, plans[0].requested_by, plans[0].kb_id) == (PlanState.STOPPED, None, lossy.kb_id)
    assert len(await listed(own_tenant.database, plans[0])) == 4
    passes, _ = await reconcile_passes.find_page(own_tenant.database, lossy.organization_id, skip=0, limit=10)
    assert [made.stopped for made in passes] == [{"stale": 4}] * 2

    await approve(own_tenant.database, plans[0])
    await runner(own_indexer).execute_next()
    await own_indexer.work()
    assert (await own_indexer.reconcile(lossy)).found == Counter()
    assert await document_index.count(own_tenant.database, lossy.key) == 2


async def test_a_document_that_came_back_since_the_plan_was_stopped_is_not_removed(
    tenant: Tenant, indexer: Replica, lossy: KnowledgeBase
) -> None:
    plan = await ask(lossy, tenant.database)
    await runner(indexer).execute_next()
    await indexer.publish(tenant.ocr("m3", paragraph(3)))
    await indexer.work()
    await approve(tenant.database, plan)
    await runner(indexer).execute_next()
    await indexer.work()
    assert await document_index.count(tenant.database, lossy.key) == 3


# What may happen meanwhile.


async def test_a_plan_whose_reconciler_died_is_executed_by_another(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    await lose(indexer, tenant.deleted("d1", revision=9))
    plan = await ask(filled, tenant.database)

    async def die() -> None:
        raise InterruptedError

    async with failpoints.during("plan.before_finish", die):
        with pytest.raises(InterruptedError):
            await runner(indexer).execute_next()
    assert not await runner(indexer, owner="reconciler-2").execute_next()
    await tenant.database[reconcile_plans.NAME].update_many(
        {}, {"$set": {"lease_until": datetime.now(UTC) - timedelta(seconds=1)}}
    )

    assert await runner(indexer, owner="reconciler-2").execute_next()
    await indexer.work()
    assert (await look(tenant.database, plan)).state is PlanState.DONE
    await tenant.assert_holds(filled, {i: text for i, text in TEXTS.items() if i != "d1"})


async def test_a_reconciler_that_lost_its_plan_stores_no_outcome(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    plan = await ask(filled, tenant.database)
    first = runner(indexer, lease=timedelta(0))

    async def take_over() -> None:
        taken = await reconcile_plans.claim(tenant.database, owner="reconciler-2", lease=timedelta(minutes=1))
        assert taken is not None

    async with failpoints.during("plan.before_finish", take_over):
        assert await first.execute_next()
    assert (await look(tenant.database, plan)).state is PlanState.RUNNING


async def test_a_plan_that_fails_says_so_and_is_not_tried_again(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ValueError("with the text of a document")

    monkeypatch.setattr(reconcile, "find_membership_drift", fail)
    plan = await ask(filled, tenant.database)
    assert await runner(indexer).execute_next()
    failed = await look(tenant.database, plan)
    assert (failed.state, failed.error) == (PlanState.FAILED, "ValueError")
    assert not await runner(indexer).execute_next()


async def test_a_plan_waits_while_its_knowledge_base_has_enough_open_jobs(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "BACKLOG_LIMIT", 2)
    monkeypatch.setattr(reconcile, "_ROOM_POLL_S", 0.01)
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(f"m{n}", paragraph(n)) for n in range(5)))
    await indexer.work()
    mine = {"organization_id": tenant.organization_id}
    await tenant.database[document_index.NAME].update_many(mine, {"$set": {"config_hash": "another"}})
    plan = await ask(kb, tenant.database)

    room = 0

    async def work_meanwhile(*args: Any, **kwargs: Any) -> int:
        nonlocal room
        room += 1
        await indexer.work()
        return await count_open(*args, **kwargs)

    count_open = index_jobs.count_open
    monkeypatch.setattr(index_jobs, "count_open", work_meanwhile)
    assert await runner(indexer).execute_next()
    assert room == 3
    assert (await look(tenant.database, plan)).repaired == {"wrong_config": 5}
