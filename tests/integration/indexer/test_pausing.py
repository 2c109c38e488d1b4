"""A paused KB takes nothing in and lets go of what has to leave; resumed, it misses nothing."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from kb_indexer.swap import pause_job
from kb_local.python_server import ModelServerProcess
from kb_shared import failpoints
from kb_shared.mongo import backfills, index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import LANES, Replica, Tenant, paragraph, replica, text_of
from tests.waiting import until

TEXT, CHANGED = text_of(1, 2, 3), text_of(0, 1, 3)


class Crash(BaseException):
    """The process ends here; no handler of errors sees it."""


async def crash() -> None:
    raise Crash


BeforePausing = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture
def before_pausing(monkeypatch: pytest.MonkeyPatch) -> BeforePausing:
    """Have something done after a worker has seen a paused KB and before it keeps its document back."""

    def do(action: Callable[[], Awaitable[None]]) -> None:
        async def act_and_pause(*args: Any) -> bool:
            monkeypatch.undo()
            await action()
            return await pause_job(*args)

        monkeypatch.setattr("kb_indexer.sync_document.pause_job", act_and_pause)

    return do


async def states(tenant: Tenant) -> dict[str, IndexJobState]:
    return {document_id: job.state for (_, document_id), job in (await tenant.jobs()).items()}


@pytest.fixture
async def kb(tenant: Tenant, indexer: Replica) -> KnowledgeBase:
    """A KB that holds one document, `old`."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("old", TEXT))
    await indexer.work()
    return kb


async def resume(tenant: Tenant, indexer: Replica, kb: KnowledgeBase) -> None:
    await indexer.resume_kb(kb)
    await indexer.scan()
    await indexer.work()


async def test_a_paused_knowledge_base_takes_nothing_in_and_pays_nothing_and_has_everything_once_resumed(
    tenant: Tenant, indexer: Replica, kb: KnowledgeBase, provider: ModelControls
) -> None:
    embedded = await provider.inputs()
    await indexer.pause_kb(kb)
    await indexer.publish(
        tenant.ocr("new", paragraph(7)),
        tenant.ocr("old", CHANGED, revision=2),
        tenant.described("old", {"n": 1}, revision=3),
    )
    await indexer.work()

    await tenant.assert_holds(kb, {"old": TEXT})
    assert await states(tenant) == {"new": IndexJobState.PAUSED, "old": IndexJobState.PAUSED}
    assert {job.attempts for job in (await tenant.jobs()).values()} == {0}
    assert await provider.inputs() == embedded

    await resume(tenant, indexer, kb)
    await tenant.assert_holds(kb, {"old": CHANGED, "new": paragraph(7)})
    await tenant.assert_settled()


async def test_documents_are_removed_from_a_paused_knowledge_base(
    tenant: Tenant, indexer: Replica, kb: KnowledgeBase
) -> None:
    await indexer.publish(tenant.ocr("untagged", paragraph(1)), tenant.ocr("stays", paragraph(2)))
    await indexer.work()
    await indexer.pause_kb(kb)
    await indexer.publish(tenant.deleted("old", revision=2), tenant.tagged("untagged", "b", revision=2))
    await indexer.work()
    await tenant.assert_holds(kb, {"stays": paragraph(2)})
    await tenant.assert_settled()


async def test_the_tags_of_a_paused_knowledge_base_may_change(
    tenant: Tenant, indexer: Replica, kb: KnowledgeBase
) -> None:
    await indexer.publish(tenant.ocr("other", paragraph(1), tags=("b",)))
    await indexer.pause_kb(kb)
    await indexer.retag_kb(kb, "b")
    await indexer.scan()
    await indexer.work()
    await tenant.assert_holds(kb, {})
    await resume(tenant, indexer, kb)
    await tenant.assert_holds(kb, {"other": paragraph(1)})
    await tenant.assert_settled()


@pytest.mark.parametrize("failpoint", ["sync.after_claim", "sync.after_chunking", "swap.after_row", "swap.after_fence"])
async def test_pausing_in_the_middle_of_a_documents_work_keeps_it_out(
    tenant: Tenant, indexer: Replica, rival: Replica, kb: KnowledgeBase, failpoint: str
) -> None:
    """Whatever the indexer has done of it by then."""
    paused = False

    async def pause() -> None:
        nonlocal paused
        if not paused:
            paused = True
            await rival.pause_kb(kb)

    await indexer.publish(tenant.ocr("new", paragraph(7)))
    async with failpoints.during(failpoint, pause):
        await indexer.work()
    await tenant.assert_holds(kb, {"old": TEXT})
    assert await states(tenant) == {"new": IndexJobState.PAUSED}

    await resume(tenant, indexer, kb)
    await tenant.assert_holds(kb, {"old": TEXT, "new": paragraph(7)})
    await tenant.assert_settled()


async def test_resuming_while_a_document_is_being_kept_back_does_not_leave_it_behind(
    tenant: Tenant, indexer: Replica, rival: Replica, kb: KnowledgeBase, before_pausing: BeforePausing
) -> None:
    await indexer.pause_kb(kb)
    await indexer.publish(tenant.ocr("new", paragraph(7)))

    async def resume_and_scan() -> None:
        # The worker has seen a paused KB; the scan that asks for what was kept is over before it keeps anything.
        await rival.resume_kb(kb)
        await rival.scan()

    before_pausing(resume_and_scan)
    await indexer.handle_commands()
    await tenant.assert_holds(kb, {"old": TEXT, "new": paragraph(7)})
    await tenant.assert_settled()


async def test_an_indexer_killed_while_a_knowledge_base_is_paused_loses_nothing(
    tenant: Tenant,
    shared_database: Database,
    model_server: ModelServerProcess,
    kb: KnowledgeBase,
    before_pausing: BeforePausing,
) -> None:
    async with replica(shared_database, model_server.api_base) as dying:
        await dying.pause_kb(kb)
        await dying.publish(tenant.ocr("killed", paragraph(7)), tenant.ocr("never-handled", paragraph(8)))
        before_pausing(crash)
        with pytest.raises(Crash):
            await dying.handle_commands()
        dying.producer.sent_to(*LANES)

    async with replica(shared_database, model_server.api_base) as heir:
        await heir.resume_kb(kb)
        await tenant.make_due()
        await heir.scan()
        await heir.work()
    await tenant.assert_holds(kb, {"old": TEXT, "killed": paragraph(7), "never-handled": paragraph(8)})
    await tenant.assert_settled()


async def test_a_scan_that_asks_for_what_was_kept_goes_on_after_its_worker_was_killed(
    tenant: Tenant, shared_database: Database, indexer: Replica, model_server: ModelServerProcess, kb: KnowledgeBase
) -> None:
    await indexer.pause_kb(kb)
    await indexer.publish(tenant.ocr("new", paragraph(7)))
    await indexer.work()
    async with replica(shared_database, model_server.api_base, lease=timedelta(0)) as dying:
        await dying.resume_kb(kb)
        async with failpoints.during("backfill.after_jobs", crash):
            with pytest.raises(Crash):
                await dying.backfills.turn()

    await tenant.make_due()
    await until(indexer.backfills.turn)
    await indexer.scan()
    await indexer.work()
    await tenant.assert_holds(kb, {"old": TEXT, "new": paragraph(7)})
    await tenant.assert_settled()


async def test_pausing_again_during_the_scan_keeps_the_remaining_documents_for_the_next_resume(
    tenant: Tenant, indexer: Replica, kb: KnowledgeBase
) -> None:
    await indexer.pause_kb(kb)
    await indexer.publish(tenant.ocr("new", paragraph(7)))
    await indexer.work()
    await indexer.resume_kb(kb)
    await indexer.pause_kb(kb)
    await indexer.scan()
    await indexer.work()
    assert await states(tenant) == {"new": IndexJobState.PAUSED}
    await resume(tenant, indexer, kb)
    await tenant.assert_holds(kb, {"old": TEXT, "new": paragraph(7)})


async def test_a_paused_knowledge_base_can_be_deleted(tenant: Tenant, indexer: Replica, kb: KnowledgeBase) -> None:
    await indexer.pause_kb(kb)
    await indexer.publish(tenant.ocr("new", paragraph(7)))
    await indexer.work()
    await indexer.begin_deletion_of_kb(kb)
    await indexer.finish_deletion_of_kb(kb)
    await tenant.assert_gone(kb)
    for name in (index_jobs.NAME, backfills.NAME):
        assert await tenant.database[name].count_documents({"organization_id": tenant.organization_id}) == 0
