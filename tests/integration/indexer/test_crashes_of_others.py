"""A process that dies takes down all it was at work on; only what it died of is given up."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from itertools import cycle

import pytest
import structlog

from kb_contracts.outcomes import DocumentIndexFailed
from kb_indexer.consumer.job_leases import JobLeases
from kb_indexer.sync_document import MAX_CRASHES
from kb_shared import failpoints
from kb_shared.kafka.producer import ProducerMessage
from kb_shared.mongo import index_jobs, outbox
from kb_shared.mongo.index_jobs import SUSPECT_AFTER, IndexJob, IndexJobState
from tests.integration.indexer.support import LANES, Replica, Tenant, decoded, record, text_of

KILLER, INNOCENT = "killer", "innocent"
LEASE = timedelta(seconds=15)


async def test_a_document_that_its_workers_die_of_is_given_up_and_the_one_beside_it_is_indexed(
    tenant: Tenant, indexer: Replica, rival: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: JobLeases, __: IndexJob) -> None:
        """Release no lease, as a dead process does."""

    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr(KILLER, text_of(1, 2)), tenant.ocr(INNOCENT, text_of(3, 4)))
    commands = indexer.producer.sent_to(*LANES)
    with monkeypatch.context() as dying:
        dying.setattr(JobLeases, "_release", nothing)
        # When one process dies, the other finds its leases.
        for crash, process in zip(range(MAX_CRASHES), cycle((indexer, rival)), strict=False):
            await _die_at_work(process, commands, together=crash < SUSPECT_AFTER)
            await tenant.make_due()
        jobs = await tenant.jobs()
        assert jobs[kb.kb_id, KILLER].state is IndexJobState.RUNNING, "not before the last of its crashes"
        # In the first crashes it was beside the killer; in those after them it waited for its turn.
        assert jobs[kb.kb_id, INNOCENT].crashes <= SUSPECT_AFTER

    await indexer.work()

    [killer] = (await tenant.jobs()).values()
    assert (killer.document_id, killer.state, killer.error_type) == (KILLER, IndexJobState.FAILED, "worker_crashed")
    assert [failure.document_id for failure in await _failures_of(tenant)] == [KILLER]
    await tenant.assert_holds(kb, {INNOCENT: text_of(3, 4)})


async def _die_at_work(process: Replica, commands: list[ProducerMessage], *, together: bool) -> None:
    """Let a process handle all commands at once, and die as soon as it is at work on the killer.

    Args:
        together: the innocent must be at work on, too, before it dies.
    """
    innocent_is_there, dead = asyncio.Event(), asyncio.Event()

    async def begin() -> None:
        if structlog.contextvars.get_contextvars()["document_id"] == KILLER:
            if together:
                await innocent_is_there.wait()
            dead.set()
        elif together:
            innocent_is_there.set()
        else:
            return
        await asyncio.Event().wait()

    async with failpoints.during("sync.after_claim", begin):
        handlers = [
            asyncio.create_task(process.sync.handle(record(each.value, key=each.key, topic=each.topic)))
            for each in commands
        ]
        async with asyncio.timeout(60):
            await dead.wait()
        for handler in handlers:
            handler.cancel()
        for handler in handlers:
            with suppress(asyncio.CancelledError):
                await handler


async def test_crashes_beside_others_make_a_document_suspect_and_no_more(tenant: Tenant, indexer: Replica) -> None:
    job = await _crash(tenant, indexer, times=MAX_CRASHES + 2, alone=False)
    assert (job.crashes, job.attempts) == (SUSPECT_AFTER, 1)
    assert job.is_suspect


async def test_crashes_alone_count_one_by_one(tenant: Tenant, indexer: Replica) -> None:
    job = await _crash(tenant, indexer, times=SUSPECT_AFTER + 2, alone=True)
    assert (job.crashes, job.attempts) == (SUSPECT_AFTER + 2, 1)


async def _crash(tenant: Tenant, indexer: Replica, *, times: int, alone: bool) -> IndexJob:
    """The job of a document once so many of its workers have died."""
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1)))
    [opened] = (await tenant.jobs()).values()
    for number in range(times + 1):
        job = await _claimed(tenant, opened, owner=f"process {number}")
        if alone:
            await index_jobs.note_alone(tenant.database, job)
        await tenant.make_due()
    await indexer.work()
    return job


async def _claimed(tenant: Tenant, job: IndexJob, *, owner: str) -> IndexJob:
    claimed = (await index_jobs.claim_all(tenant.database, [job.command()], owner=owner, lease=LEASE)).get(
        job.command()
    )
    assert claimed is not None
    return claimed


async def test_work_that_went_to_another_replica_did_not_crash(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1)))
    [opened] = (await tenant.jobs()).values()
    for owner in ("one", "other", "one"):
        job = await _claimed(tenant, opened, owner=owner)
        await index_jobs.give_back(tenant.database, job, owner=owner, uncount_attempt=True)
    await indexer.work()
    assert (job.crashes, job.attempts) == (0, 1)


async def test_work_that_a_process_could_not_give_back_and_takes_up_again_did_not_crash(
    tenant: Tenant, indexer: Replica
) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1)))
    [opened] = (await tenant.jobs()).values()
    for _ in range(3):
        job = await _claimed(tenant, opened, owner="the same")
    await tenant.make_due()
    await indexer.work()
    assert (job.crashes, job.attempts) == (0, 1)


async def test_a_request_gives_a_document_given_up_another_chance_but_not_beside_others(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    event = tenant.ocr("d", text_of(1))
    await indexer.publish(event)
    mine = {"organization_id": tenant.organization_id}
    await tenant.database[index_jobs.NAME].update_one(mine, {"$set": {"crashes": MAX_CRASHES}})
    await indexer.handle_commands()
    [job] = (await tenant.jobs()).values()
    assert (job.state, job.error_type) == (IndexJobState.FAILED, "worker_crashed")

    await indexer.publish(event)
    [job] = (await tenant.jobs()).values()
    assert (job.state, job.attempts, job.crashes, job.error_type) == (IndexJobState.PENDING, 0, SUSPECT_AFTER, None)
    with structlog.testing.capture_logs() as logs:
        await indexer.handle_commands()
    assert [entry["event"] for entry in logs].count("document.quarantined") == 1
    await tenant.assert_holds(kb, {"d": text_of(1)})
    await tenant.assert_settled()


async def test_no_event_is_fanned_out_beside_a_document_that_is_suspect(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    async with indexer.quarantine.enter_alone():
        event = asyncio.create_task(indexer.publish(tenant.ocr("d", text_of(1))))
        await asyncio.wait([event], timeout=0.2)
        assert not event.done()
        assert await tenant.jobs() == {}
    await event
    await indexer.work()
    await tenant.assert_holds(kb, {"d": text_of(1)})


async def _failures_of(tenant: Tenant) -> list[DocumentIndexFailed]:
    rows = tenant.database[outbox.NAME].find({"key": {"$regex": f"^{tenant.organization_id}/"}})
    values = [row["value"] async for row in rows if DocumentIndexFailed.TYPE.encode() in row["value"]]
    return decoded(values, DocumentIndexFailed)
