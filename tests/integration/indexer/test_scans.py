"""What asks for documents without an event: scans of a KB, the reconciler, the recovery of a broker."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from kb_contracts import topics
from kb_contracts.commands import SyncDocument
from kb_indexer import backfill
from kb_indexer.sweeper import send_lost_commands_again
from kb_local import recovery
from kb_local.python_server import ModelServerProcess
from kb_shared import failpoints
from kb_shared.kafka.producer import ProducerMessage
from kb_shared.mongo import backfills, index_jobs, knowledge_bases, outbox
from kb_shared.mongo.backfills import Kind
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import (
    LANES,
    Replica,
    Tenant,
    decoded,
    paragraph,
    replica,
)
from tests.waiting import until

DOCUMENTS = [f"d{n:02}" for n in range(20)]
TEXTS = {document_id: paragraph(n) for n, document_id in enumerate(DOCUMENTS)}


class Crash(Exception):
    """The process ends here."""


async def crash() -> None:
    raise Crash


def asked_for(messages: Sequence[ProducerMessage]) -> list[str]:
    """The documents of commands."""
    return [command.document_id for command in decoded([message.value or b"" for message in messages], SyncDocument)]


async def start_scan(tenant: Tenant, kb: KnowledgeBase, kind: Kind = Kind.SCAN) -> None:
    async def work(session: MongoSession) -> None:
        await backfills.start(
            tenant.database, session, KnowledgeBaseKey(tenant.organization_id, kb.kb_id), traceparent="", kind=kind
        )

    await in_transaction(tenant.database, work)


async def let_leases_of_scans_expire(database: Database) -> None:
    await database[backfills.NAME].update_many({}, [{"$set": {"lease_until": "$$NOW"}}])


async def open_jobs(tenant: Tenant, kb: KnowledgeBase) -> int:
    return await index_jobs.count_open(tenant.database, KnowledgeBaseKey(tenant.organization_id, kb.kb_id))


@pytest.fixture
async def kb(own_tenant: Tenant, own_indexer: Replica, monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    """A new KB whose twenty documents were there before it, and a scan that goes by stretches of four."""
    assert index_jobs.BACKLOG_LIMIT == 200
    monkeypatch.setattr(backfill, "BACKLOG_LIMIT", 10)
    monkeypatch.setattr(backfill, "_STRETCH", 4)
    await own_indexer.publish(*(own_tenant.ocr(document_id, text) for document_id, text in TEXTS.items()))
    kb = await own_tenant.create_kb("a")
    await start_scan(own_tenant, kb)
    return kb


async def test_c11_a_scan_asks_for_every_document_and_never_for_too_many_at_once(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    most = 0
    while True:
        while await own_indexer.backfills.turn():
            most = max(most, await open_jobs(own_tenant, kb))
        if not own_indexer.producer.sent:
            break
        assert {message.topic for message in own_indexer.producer.sent} == {topics.INDEX_BACKFILL.name}
        await own_indexer.handle_commands()

    assert most == 10
    await own_tenant.assert_holds(kb, TEXTS)
    await own_tenant.assert_settled()


@pytest.mark.parametrize("failpoint", ["backfill.after_jobs", "backfill.after_publish"])
async def test_a_scan_goes_on_where_a_crash_left_it_once_the_lease_of_the_dead_has_expired(
    own_tenant: Tenant, own_database: Database, model_server: ModelServerProcess, kb: KnowledgeBase, failpoint: str
) -> None:
    async with replica(own_database, model_server.api_base, lease=timedelta(hours=1)) as dying:
        await dying.backfills.turn()
        async with failpoints.during(failpoint, crash):
            with pytest.raises(Crash):
                await dying.backfills.turn()
        begun = asked_for(dying.producer.sent_to(*LANES))
    assert begun[:4] == DOCUMENTS[:4]

    async with replica(own_database, model_server.api_base) as heir:
        assert not await heir.backfills.turn(), "the dead one's lease has not expired"
        await let_leases_of_scans_expire(own_database)
        await until(heir.backfills.turn)
        # The beginning of the stretch of the crash, as far as there is room, and not the one before it.
        assert asked_for(heir.producer.sent) == DOCUMENTS[4:6]

        await own_tenant.make_due()
        while await heir.backfills.turn() or await heir.sweeper.sweep():
            await heir.handle_commands()
    await own_tenant.assert_holds(kb, TEXTS)
    await own_tenant.assert_settled()


async def test_commands_left_unpublished_by_a_crash_are_published_soon_though_the_scan_covers_other_documents(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    """Its KB has got other tags; the jobs have nothing to do, but each of them would be shown as pending."""
    async with failpoints.during("backfill.after_jobs", crash):
        with pytest.raises(Crash):
            await own_indexer.backfills.turn()
    own_indexer.producer.sent_to(*LANES)
    await own_indexer.retag_kb(kb, "z")
    await let_leases_of_scans_expire(own_indexer.database)
    await own_indexer.scan()
    assert len(await own_tenant.jobs()) == 4

    await own_tenant.let_pass(index_jobs.PUBLISH_GRACE)
    await own_indexer.work()
    await own_tenant.assert_settled()


async def test_commands_of_a_scan_are_given_time_to_be_claimed(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.backfills.turn()
    await own_indexer.requests.note_published(after_s=0)
    assert len(await own_tenant.jobs()) == 4

    await own_tenant.let_pass(index_jobs.PUBLISH_GRACE)
    assert await own_indexer.sweeper.sweep() == 0
    await own_tenant.let_pass(index_jobs.UNCLAIMED_GRACE)
    assert await own_indexer.sweeper.sweep() == 4


async def test_a_job_that_was_put_off_before_its_scan_noted_its_command_as_published_is_due_when_it_says(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase, provider: ModelControls
) -> None:
    await provider.program_faults({"status": 429, "retry_after_s": 20})

    async with failpoints.during("backfill.after_publish", own_indexer.handle_commands):
        await own_indexer.backfills.turn()
    await own_indexer.requests.note_published(after_s=0)
    assert {job.error_type for job in (await own_tenant.jobs()).values()} >= {"provider_429"}

    await provider.program_faults()
    await own_tenant.let_pass(timedelta(seconds=30))
    assert await own_indexer.sweeper.sweep() == 4


async def test_a_scan_after_a_retag_lets_documents_leave_and_come(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.scan()
    await own_indexer.publish(own_tenant.tagged("d00", "b", revision=2), own_tenant.tagged("d01", "a", "b", revision=2))
    await own_indexer.work()

    await own_indexer.retag_kb(kb, "b")
    await own_indexer.scan()

    await own_tenant.assert_holds(kb, {document_id: TEXTS[document_id] for document_id in ("d00", "d01")})
    await own_tenant.assert_settled()


async def test_a_scan_without_drift_requests_nothing_and_a_forced_one_requests_everything_for_free(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.scan()
    paid = await own_tenant.spus()

    await start_scan(own_tenant, kb)
    while await own_indexer.backfills.turn():
        assert own_indexer.producer.sent == []

    await start_scan(own_tenant, kb, Kind.REINDEX)
    await own_indexer.backfills.turn()
    assert asked_for(own_indexer.producer.sent) == DOCUMENTS[:4]
    await own_indexer.handle_commands()
    await own_indexer.scan()
    await own_tenant.assert_holds(kb, TEXTS)
    assert await own_tenant.spus() == paid


async def test_cancelling_a_reindexing_while_it_asks_for_documents_withdraws_those_too(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.scan()
    own_indexer.producer.sent_to(*LANES)
    await start_scan(own_tenant, kb, Kind.REINDEX)

    async def cancel() -> None:
        row = await own_tenant.database[backfills.NAME].find_one({"kb_id": kb.kb_id, "state": "running"})
        assert row is not None
        scan = await backfills.find(
            own_tenant.database, KnowledgeBaseKey(own_tenant.organization_id, kb.kb_id), row["_id"]
        )
        assert scan is not None
        await backfills.cancel(own_tenant.database, scan)

    async with failpoints.during("backfill.after_jobs", cancel):
        await own_indexer.backfills.turn()
    jobs = await own_tenant.jobs()
    assert len(jobs) == 4
    assert not any(job.force for job in jobs.values())
    assert not await own_indexer.backfills.turn()
    await own_indexer.handle_commands()
    await own_tenant.assert_holds(kb, TEXTS)
    await own_tenant.assert_settled()


async def test_a_scan_tries_documents_again_that_failed_for_what_has_changed_since(
    own_tenant: Tenant, own_indexer: Replica
) -> None:
    kb = await own_tenant.create_kb("a", max_chunks=1)
    text = paragraph(1) + "\n\n" + paragraph(2)
    await own_indexer.publish(own_tenant.ocr("unfit", text), own_tenant.tagged("waiting", "a", revision=1))
    await own_indexer.work()
    assert {job.state for job in (await own_tenant.jobs()).values()} == {
        IndexJobState.FAILED,
        IndexJobState.WAITING_FOR_TEXT,
    }

    await own_tenant.database[knowledge_bases.NAME].update_one(
        {"_id": kb.kb_id}, {"$set": {"max_chunks_per_document": 2}}
    )
    await start_scan(own_tenant, kb)
    await own_indexer.scan()

    await own_tenant.assert_holds(kb, {"unfit": text})
    assert [job.state for job in (await own_tenant.jobs()).values()] == [IndexJobState.WAITING_FOR_TEXT]


async def test_a_scan_of_a_knowledge_base_that_is_being_deleted_ends(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.backfills.turn()
    await own_indexer.begin_deletion_of_kb(kb)

    while await own_indexer.backfills.turn():
        pass
    await own_indexer.handle_commands()
    await own_indexer.finish_deletion_of_kb(kb)

    await own_tenant.assert_gone(kb)
    assert await own_tenant.spus() == 0


async def test_the_reconciler_queues_drifted_documents_without_a_job_and_nothing_else(
    own_tenant: Tenant, own_indexer: Replica
) -> None:
    kb = await own_tenant.create_kb("a", max_chunks=1)
    for document_id in ("right", "deleted", "renewed", "untagged"):
        await own_indexer.publish(own_tenant.ocr(document_id, paragraph(1)))
    await own_indexer.publish(own_tenant.ocr("unfit", paragraph(1) + "\n\n" + paragraph(2)))
    await own_indexer.work()
    lost = [
        own_tenant.deleted("deleted", revision=2),
        own_tenant.described("renewed", {"n": 1}, revision=2),
        own_tenant.tagged("untagged", "z", revision=2),
        own_tenant.ocr("new", paragraph(3)),
        own_tenant.tagged("waiting", "a", revision=1),
    ]
    async with failpoints.during("fan_out.after_projection", crash):
        for event in lost:
            with pytest.raises(Crash):
                await own_indexer.publish(event)
    await own_indexer.publish(own_tenant.ocr("queued", paragraph(4)))
    own_indexer.producer.sent_to(*LANES)

    report = await own_indexer.full_pass()

    assert report.total.found == report.total.repaired == Counter(stale=2, stale_snapshot=1, missing=2)
    assert sorted(asked_for(own_indexer.producer.sent)) == ["deleted", "new", "renewed", "untagged", "waiting"]
    assert {message.topic for message in own_indexer.producer.sent} == {topics.INDEX_BACKFILL.name}

    await own_indexer.handle_commands()
    assert (await own_indexer.full_pass()).total.found == Counter()
    states = {document_id: job.state for (_, document_id), job in (await own_tenant.jobs()).items()}
    assert states == {
        "unfit": IndexJobState.FAILED,
        "waiting": IndexJobState.WAITING_FOR_TEXT,
        "queued": IndexJobState.PENDING,
    }
    await own_tenant.make_due()
    await own_indexer.work()
    await own_tenant.assert_holds(
        kb, {"right": paragraph(1), "renewed": paragraph(1), "new": paragraph(3), "queued": paragraph(4)}
    )


async def test_commands_of_the_reconciler_are_given_time_to_be_claimed(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    assert (await own_indexer.full_pass()).total.repaired.total() > 0

    await own_tenant.let_pass(index_jobs.PUBLISH_GRACE)

    assert await own_indexer.sweeper.sweep() == 0


async def test_the_reconciler_leaves_a_knowledge_base_alone_that_is_being_deleted(
    own_tenant: Tenant, own_indexer: Replica, kb: KnowledgeBase
) -> None:
    await own_indexer.begin_deletion_of_kb(kb)
    assert (await own_indexer.full_pass()).total.found == Counter()
    assert await own_tenant.jobs() == {}


async def test_after_the_loss_of_a_broker_every_open_job_is_due_and_everything_is_sent_again(
    own_tenant: Tenant, own_indexer: Replica
) -> None:
    kb = await own_tenant.create_kb("a", max_chunks=1)
    await own_indexer.publish(
        own_tenant.ocr("indexed", paragraph(1)),
        own_tenant.ocr("unfit", paragraph(1) + "\n\n" + paragraph(2)),
        own_tenant.tagged("waiting", "a", revision=1),
    )
    await own_indexer.work()
    unsent = await outbox.count_unsent(own_tenant.database)
    await outbox.mark_sent(
        own_tenant.database,
        [m.id for m in await outbox.find_unsent(own_tenant.database, range(outbox.BUCKETS), limit=100)],
    )
    await own_indexer.publish(own_tenant.ocr("lost", paragraph(2)))
    own_indexer.producer.sent_to(*LANES)
    assert await own_indexer.sweeper.sweep() == 0

    await recovery.restore_after_broker_loss(own_tenant.database)

    assert unsent > 0
    assert await outbox.count_unsent(own_tenant.database) == unsent
    assert await own_indexer.sweeper.sweep() == 1
    assert asked_for(own_indexer.producer.sent) == ["lost"]
    await own_indexer.work()
    await own_tenant.assert_holds(kb, {"indexed": paragraph(1), "lost": paragraph(2)})


async def test_commands_that_kafka_lost_are_sent_again_at_once(own_tenant: Tenant, own_indexer: Replica) -> None:
    kb = await own_tenant.create_kb("a")
    await own_indexer.publish(own_tenant.ocr("lost", paragraph(1)))
    own_indexer.producer.sent_to(*LANES)
    assert await own_indexer.sweeper.sweep() == 0
    await send_lost_commands_again(own_tenant.database)("kb-index-requests")
    assert await own_indexer.sweeper.sweep() == 1
    await own_indexer.work()
    await own_tenant.assert_holds(kb, {"lost": paragraph(1)})
