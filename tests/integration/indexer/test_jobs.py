"""Work is never lost, never done twice at a price, and says why when it is given up."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest
import structlog

from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.outcomes import DocumentIndexFailed, DocumentRejected
from kb_indexer.state_reader import StateReader
from kb_indexer.swap import StaleDecision, replace_document
from kb_indexer.sync_failures import MAX_ATTEMPTS, MAX_BAD_ANSWERS
from kb_local.python_server import ModelServerProcess
from kb_shared import failpoints
from kb_shared.errors import BudgetExhausted, DocumentUnfit, TransientError
from kb_shared.kafka.record import Record
from kb_shared.messaging import index_requests
from kb_shared.mongo import database as mongo_database
from kb_shared.mongo import documents, index_jobs, outbox
from kb_shared.mongo.index_jobs import IndexJob, IndexJobState, SyncRequest
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import (
    LANES,
    CommandLog,
    Replica,
    Tenant,
    decoded,
    record,
    replica,
    text_of,
)
from tests.waiting import until

TEXT, CHANGED = text_of(1, 2, 3), text_of(0, 1, 3)


async def the_job(tenant: Tenant) -> IndexJob:
    jobs = await tenant.jobs()
    assert len(jobs) == 1
    return next(iter(jobs.values()))


async def work_to_the_end(tenant: Tenant, indexer: Replica) -> None:
    """Do what is open, again where a slow machine has it postponed."""

    async def has_no_open_jobs() -> bool:
        await indexer.work()
        await tenant.make_due()
        return not any(job.state in index_jobs.UNDONE for job in (await tenant.jobs()).values())

    await until(has_no_open_jobs)


async def failures_of(tenant: Tenant) -> list[DocumentIndexFailed]:
    rows = tenant.database[outbox.NAME].find({"key": {"$regex": f"^{tenant.organization_id}/"}})
    values = [row["value"] async for row in rows if DocumentIndexFailed.TYPE.encode() in row["value"]]
    return decoded(values, DocumentIndexFailed)


async def set_attempts(tenant: Tenant, attempts: int) -> None:
    query = {"organization_id": tenant.organization_id}
    await tenant.database[index_jobs.NAME].update_one(query, {"$set": {"attempts": attempts}})


@pytest.mark.parametrize("failpoint", ["sync.after_claim", "sync.after_chunking", "swap.after_fence", "swap.after_job"])
async def test_a_request_that_comes_while_its_document_is_worked_on_is_not_lost(
    tenant: Tenant, indexer: Replica, rival: Replica, failpoint: str
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    arrived = asyncio.Event()
    arrivals: list[asyncio.Task[None]] = []

    async def arrive() -> None:
        await rival.publish(tenant.ocr("d", CHANGED, revision=2))
        arrived.set()

    async def something_arrives() -> None:
        if not arrivals:
            arrivals.append(asyncio.create_task(arrive()))
            # From the fence on the event has to wait for the swap.
            await asyncio.wait(arrivals, timeout=0.2)

    async with failpoints.during(failpoint, something_arrives):
        await indexer.handle_commands()
    await until(arrived.is_set)

    # Its own command found the lease taken, or is still on its way: the job alone must bring it about.
    rival.producer.sent_to(*LANES)
    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {"d": CHANGED})
    await tenant.assert_settled()


async def test_a_request_after_the_decision_of_a_job_is_done_when_nothing_was_to_be_done(
    tenant: Tenant, indexer: Replica, rival: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = (await the_job(tenant)).command()
    await work_to_the_end(tenant, indexer)
    await indexer.requests.request([command])
    count_live = StateReader.live_chunks

    async def counted_before_another_request(state_reader: StateReader, kb: KnowledgeBase, document_id: str) -> int:
        live = await count_live(state_reader, kb, document_id)
        monkeypatch.undo()
        await rival.publish(tenant.ocr("d", CHANGED, revision=2))
        return live

    monkeypatch.setattr(StateReader, "live_chunks", counted_before_another_request)
    await work_to_the_end(tenant, indexer)
    assert StateReader.live_chunks is count_live, "nothing was asked meanwhile"
    await tenant.assert_holds(kb, {"d": CHANGED})
    await tenant.assert_settled()


async def test_a_request_after_the_decision_of_a_job_is_done_when_the_document_is_given_up(
    tenant: Tenant, indexer: Replica, rival: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    unfit = [DocumentUnfit("as the first revision is")]

    async def another_request_before_it_is_given_up() -> None:
        if unfit:
            await rival.publish(tenant.ocr("d", CHANGED, revision=2))
            raise unfit.pop()

    async with failpoints.during("sync.after_chunking", another_request_before_it_is_given_up):
        await work_to_the_end(tenant, indexer)

    assert not unfit
    assert await failures_of(tenant) == []
    await tenant.assert_holds(kb, {"d": CHANGED})
    await tenant.assert_settled()


async def test_a_request_after_the_decision_of_a_job_is_done_when_its_text_is_missing(
    tenant: Tenant, indexer: Replica, rival: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await work_to_the_end(tenant, indexer)
    await indexer.publish(tenant.deleted("d", revision=2), tenant.tagged("d", "a", revision=3))

    async def publish_changed_text() -> None:
        await rival.publish(tenant.ocr("d", CHANGED, revision=4))

    async with failpoints.during("removal.after_commit", publish_changed_text):
        await work_to_the_end(tenant, indexer)

    await tenant.assert_holds(kb, {"d": CHANGED})


async def test_a_job_that_got_another_request_meanwhile_is_due_at_once(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = indexer.producer.sent_to(*LANES)

    async def another_request() -> None:
        await indexer.publish(tenant.described("d", {"n": 1}, revision=2))
        indexer.producer.sent_to(*LANES)

    indexer.producer.sent = command
    async with failpoints.during("sync.after_chunking", another_request):
        await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.lease_owner) == (IndexJobState.PENDING, None)
    assert job.next_attempt_at is not None
    assert job.next_attempt_at <= datetime.now(UTC)
    await indexer.work()
    await tenant.assert_settled()


async def test_while_one_replica_has_the_lease_no_other_pays_for_the_same_work(
    tenant: Tenant, indexer: Replica, model_server: ModelServerProcess, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = indexer.producer.sent_to(*LANES)
    times_chunked = 0

    async def the_command_comes_twice() -> None:
        nonlocal times_chunked
        times_chunked += 1
        if times_chunked > 1:
            return
        async with replica(tenant.database, model_server.api_base) as other:
            other.producer.sent = list(command)
            await other.handle_commands()

    indexer.producer.sent = list(command)
    async with failpoints.during("sync.after_chunking", the_command_comes_twice):
        await indexer.handle_commands()

    assert times_chunked == 1
    assert await provider.inputs() == 3
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_the_lease_of_work_that_takes_long_is_extended_and_that_of_short_work_is_left_alone(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    ends: list[datetime] = []

    async def note_when_the_lease_ends() -> None:
        row = await tenant.database[index_jobs.NAME].find_one({"kb_id": kb.kb_id})
        assert row is not None
        ends.append(row["lease_until"])

    async def leases_are_kept() -> None:
        await tenant.make_due()
        await note_when_the_lease_ends()
        await indexer.leases.extend(held_for=timedelta(hours=1))
        await note_when_the_lease_ends()
        await indexer.leases.extend(held_for=timedelta(0))
        await note_when_the_lease_ends()

    async with failpoints.during("sync.after_chunking", leases_are_kept):
        await indexer.handle_commands()
    expired, left_alone, extended = ends
    assert left_alone == expired
    assert extended > expired


async def test_leases_are_extended_again_and_again_while_their_work_goes_on(
    tenant: Tenant, model_server: ModelServerProcess
) -> None:
    kb = await tenant.create_kb("a")

    async def when_the_lease_ends() -> datetime:
        row = await tenant.database[index_jobs.NAME].find_one({"kb_id": kb.kb_id})
        assert row is not None
        ends: datetime = row["lease_until"]
        return ends

    async def two_extensions() -> None:
        for _ in range(2):
            before = await when_the_lease_ends()

            async def extended(before: datetime = before) -> bool:
                return await when_the_lease_ends() > before

            await until(extended)

    async with replica(tenant.database, model_server.api_base, lease=timedelta(seconds=0.6)) as indexer:
        keeping = asyncio.create_task(indexer.leases.run())
        await indexer.publish(tenant.ocr("d", TEXT))
        async with failpoints.during("sync.after_chunking", two_extensions):
            await indexer.handle_commands()
        keeping.cancel()
    await tenant.assert_settled()


async def test_a_lease_that_another_has_taken_is_not_extended(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = (await the_job(tenant)).command()
    late = (await index_jobs.claim_all(tenant.database, [command], owner="late", lease=timedelta(0))).get(command)
    await tenant.make_due()
    assert late is not None
    assert (await index_jobs.claim_all(tenant.database, [command], owner="other", lease=timedelta(minutes=1))).get(
        command
    ) is not None
    before = await the_job(tenant)

    await index_jobs.extend(tenant.database, [late], owner="late", lease=timedelta(hours=1))

    assert await the_job(tenant) == before


async def test_a_request_leaves_the_lease_of_a_running_job_alone(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = (await the_job(tenant)).command()
    assert (await index_jobs.claim_all(tenant.database, [command], owner="at work", lease=timedelta(hours=1))).get(
        command
    ) is not None

    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))

    assert (await the_job(tenant)).lease_owner == "at work"
    assert (await index_jobs.claim_all(tenant.database, [command], owner="other", lease=timedelta(hours=1))).get(
        command
    ) is None


async def test_a_forced_request_stays_forced_when_an_ordinary_one_follows(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    forced = SyncDocument(
        organization_id=tenant.organization_id, kb_id=kb.kb_id, document_id="d", reason=Reason.BACKFILL, force=True
    )
    for command in (forced, forced.model_copy(update={"force": False})):
        await indexer.requests.request([command])
    assert (await the_job(tenant)).force


async def test_the_work_of_a_replica_that_died_is_due_once_its_lease_has_expired(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    indexer.producer.sent_to(*LANES)
    command = (await the_job(tenant)).command()
    claimed = (await index_jobs.claim_all(tenant.database, [command], owner="the dead", lease=timedelta(hours=1))).get(
        command
    )
    assert claimed is not None
    await indexer.sync.handle(_as_record(command))
    assert (await the_job(tenant)).lease_owner == "the dead"

    await tenant.make_due()
    await until(lambda: _swept(indexer))
    await indexer.handle_commands()

    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_command_that_was_never_claimed_is_published_again(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    indexer.producer.sent_to(*LANES)
    assert await indexer.sweeper.sweep() == 0, "a command has its time to arrive"

    await tenant.make_due()
    assert await indexer.sweeper.sweep() == 1
    assert await indexer.sweeper.sweep() == 0, "once only"
    await indexer.handle_commands()

    await tenant.assert_holds(kb, {"d": TEXT})


async def test_a_job_that_a_dead_indexer_opened_after_its_successor_had_done_it_is_closed_soon(
    tenant: Tenant, indexer: Replica
) -> None:
    """MongoDB may carry out a write some seconds after the process that asked for it died."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    command = SyncDocument(organization_id=tenant.organization_id, kb_id=kb.kb_id, document_id="d", reason=Reason.OCR)
    await index_jobs.request(tenant.database, [SyncRequest([command], tracing.current(), datetime.now(UTC))])
    await indexer.work()
    assert len(await tenant.jobs()) == 1

    await tenant.let_pass(index_jobs.PUBLISH_GRACE)
    await indexer.work()

    await tenant.assert_settled()


async def test_a_sweeper_notes_what_was_published_some_time_ago(
    own_tenant: Tenant, own_indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each burst that takes longer would be published twice."""
    await own_tenant.create_kb("a")
    await own_indexer.publish(own_tenant.ocr("d", TEXT))
    opened = await the_job(own_tenant)
    monkeypatch.setattr(index_requests, "monotonic", lambda: monotonic() + index_requests.NOTE_AFTER_S)

    async def is_noted() -> bool:
        job = await the_job(own_tenant)
        assert job.next_attempt_at is not None
        assert opened.next_attempt_at is not None
        return job.next_attempt_at >= opened.next_attempt_at + index_jobs.UNCLAIMED_GRACE - index_jobs.PUBLISH_GRACE

    async with asyncio.timeout(60):
        sweeping = asyncio.create_task(own_indexer.sweeper.run())
        await until(is_noted)
    sweeping.cancel()
    assert len(own_indexer.producer.sent_to(*LANES)) == 1


async def test_a_command_published_a_moment_ago_is_not_noted_yet(tenant: Tenant, indexer: Replica) -> None:
    """Most of it is done soon, and needs no further write."""
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    opened = await the_job(tenant)

    await indexer.requests.note_published()

    assert await the_job(tenant) == opened


async def test_a_note_does_not_count_for_a_job_that_a_sweeper_has_taken_since(
    own_tenant: Tenant, own_indexer: Replica
) -> None:
    """The sweeper may die before it publishes the command."""
    await own_tenant.create_kb("a")
    await own_indexer.publish(own_tenant.ocr("d", TEXT))
    await own_tenant.make_due()
    [taken] = await index_jobs.take_due(own_tenant.database, limit=10)

    await own_indexer.requests.note_published(after_s=0)

    assert (await the_job(own_tenant)).next_attempt_at == taken.next_attempt_at


async def test_a_command_published_again_is_given_time_to_be_claimed(tenant: Tenant, indexer: Replica) -> None:
    """Else each sweep would add another command to a lane that is behind already."""
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await tenant.make_due()
    assert await indexer.sweeper.sweep() == 1

    await tenant.let_pass(index_jobs.PUBLISH_GRACE + timedelta(seconds=1))
    assert await indexer.sweeper.sweep() == 0
    await tenant.let_pass(index_jobs.UNCLAIMED_GRACE)
    assert await indexer.sweeper.sweep() == 1


async def test_w10_a_provider_that_limits_requests_is_waited_for_as_long_as_it_asks(
    tenant: Tenant, indexer: Replica, rival: Replica, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a")
    await provider.program_faults({"status": 429, "retry_after_s": 90})
    await indexer.publish(tenant.ocr("d", TEXT))
    asked_at = datetime.now(UTC)
    await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 0, "provider_429")
    assert job.next_attempt_at is not None
    assert timedelta(seconds=89) < job.next_attempt_at - asked_at < timedelta(seconds=120)
    assert await indexer.sweeper.sweep() == 0

    await provider.program_faults()
    await tenant.make_due()
    await rival.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_document_that_its_budget_has_no_room_for_waits_without_using_up_attempts(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await tenant.create_kb("a")
    no_room = BudgetExhausted("no room for 3 more", retry_after_s=7 * 86_400)

    async def refuse(*_: object, **__: object) -> None:
        raise no_room

    monkeypatch.setattr(indexer.embedder, "embed", refuse)
    await indexer.publish(tenant.ocr("d", TEXT))
    asked_at = datetime.now(UTC)
    await indexer.work()

    job = await the_job(tenant)
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 0, "budget_exhausted")
    assert job.postponed_until is not None
    assert timedelta(minutes=30) < job.postponed_until - asked_at < timedelta(hours=2), "the budget may be raised"

    monkeypatch.undo()
    await index_jobs.make_due(tenant.database, tenant.organization_id, error_type="budget_exhausted")
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_c11_a_provider_that_refuses_the_key_parks_the_document_and_leaves_the_others_alone(
    tenant: Tenant, indexer: Replica, rival: Replica, provider: ModelControls
) -> None:
    kb, healthy = await tenant.create_kb("a", model="hash-17", dimensions=17), await tenant.create_kb("a")
    await provider.program_faults({"status": 401, "model": "hash-17"})
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()

    job = await the_job(tenant)
    assert (job.kb_id, job.state, job.attempts, job.error_type) == (kb.kb_id, IndexJobState.PENDING, 0, "provider_auth")
    assert await failures_of(tenant) == []
    await tenant.assert_holds(healthy, {"d": TEXT})

    await provider.program_faults()
    await tenant.make_due()
    await rival.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_document_of_too_many_chunks_fails_before_anything_is_paid(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a", max_chunks=2)
    await indexer.publish(tenant.ocr("d", TEXT), tenant.ocr("e", text_of(7, 8)))
    await indexer.work()

    job = await the_job(tenant)
    assert (job.document_id, job.state, job.error_type) == ("d", IndexJobState.FAILED, "document_unfit")
    assert job.error_message is not None
    assert job.error_message.startswith("3 chunks; the knowledge base takes at most 2 a document: raise its")
    assert await provider.inputs() == 2
    await tenant.assert_holds(kb, {"e": text_of(7, 8)})


async def test_a_text_with_a_credential_fails_where_it_is_refused_and_is_indexed_elsewhere(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    refusing, other = await tenant.create_kb("a", refuse_sensitive=True), await tenant.create_kb("a", "b")
    credential = "hunter2-Xy77-kk"
    leak = f"{TEXT}\npassword = {credential}"
    await indexer.publish(tenant.ocr("d", leak), tenant.ocr("e", "Reset your password."))
    await indexer.work()

    job = await the_job(tenant)
    assert (job.kb_id, job.document_id, job.state) == (refusing.kb_id, "d", IndexJobState.FAILED)
    assert job.error_type == "sensitive_content"
    line = leak.count("\n") + 1
    assert (job.error_message or "").startswith(f"line {line} contains a credential (password)")
    await tenant.assert_holds(refusing, {"e": "Reset your password."})
    await tenant.assert_holds(other, {"d": leak, "e": "Reset your password."})

    [failure] = await failures_of(tenant)
    rows = await tenant.database[outbox.NAME].find({"key": f"{tenant.organization_id}/{refusing.kb_id}"}).to_list()
    values = [row["value"] for row in rows if DocumentRejected.TYPE.encode() in row["value"]]
    [rejection] = decoded(values, DocumentRejected)
    assert (rejection.document_id, rejection.kb_id, rejection.reason) == ("d", refusing.kb_id, "sensitive-content")
    assert rejection.revision == failure.revision is not None
    assert credential.encode() not in b"".join(row["value"] for row in rows)


async def test_w10_an_outage_of_the_provider_uses_up_no_attempts(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a")
    await provider.program_faults({"status": 500})
    await indexer.publish(tenant.ocr("d", TEXT))
    await set_attempts(tenant, MAX_ATTEMPTS - 1)
    await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.error_type, job.attempts) == (IndexJobState.PENDING, "provider_5xx", MAX_ATTEMPTS - 1)

    await provider.program_faults()
    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})


async def test_a_document_whose_vectors_are_wrong_three_times_is_given_up_with_the_reason_of_the_last(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    await tenant.create_kb("a")
    await provider.program_faults({"kind": "short"})
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.handle_commands()
    for _ in range(MAX_BAD_ANSWERS - 1):
        assert (await the_job(tenant)).state == IndexJobState.PENDING
        await tenant.make_due()
        await indexer.work()

    job = await the_job(tenant)
    assert (job.state, job.error_type, job.attempts) == (IndexJobState.FAILED, "bad_answer", MAX_BAD_ANSWERS)
    assert [f.error_type for f in await failures_of(tenant)] == ["bad_answer"]
    assert await tenant.spus() == 0


async def test_rows_that_a_dead_transaction_holds_delay_a_document_a_little_and_use_up_no_attempt(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given up before the server ends the dead one.
    monkeypatch.setattr(mongo_database, "MAX_ATTEMPTS", 2)
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await set_attempts(tenant, MAX_ATTEMPTS - 1)
    async with tenant.database.client.start_session() as session, await session.start_transaction():
        await documents.advance_sequences(tenant.database, session, tenant.organization_id, document_ids=["d"])
        asked_at = datetime.now(UTC)
        await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.error_type, job.attempts) == (IndexJobState.PENDING, "mongo_transient", MAX_ATTEMPTS - 1)
    assert job.next_attempt_at is not None
    assert job.next_attempt_at - asked_at < timedelta(seconds=15)
    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})


async def test_texts_paid_before_a_failure_are_not_paid_again(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))

    async def crash() -> None:
        raise TransientError("as if it crashed here")

    async with failpoints.during("swap.before_commit", crash):
        await indexer.handle_commands()
    await tenant.assert_holds(kb, {})
    assert await tenant.spus() == 3

    await tenant.make_due()
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()
    assert await provider.inputs() == 3


async def test_a_bug_leaves_the_document_where_it_was_and_is_named_without_its_words(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))

    async def bug() -> None:
        raise ZeroDivisionError("harvest")

    with structlog.testing.capture_logs() as logs:
        async with failpoints.during("swap.after_chunks", bug):
            for _ in range(3):
                await indexer.work()
                await tenant.make_due()
            await indexer.work()

    assert sum(entry["event"] == "document.crashed" for entry in logs) == 3

    job = await the_job(tenant)
    assert (job.state, job.error_type, job.attempts) == (IndexJobState.FAILED, "internal_error", 3)
    assert job.error_message is not None
    assert "ZeroDivisionError" in job.error_message
    assert "harvest" not in job.error_message
    await tenant.assert_holds(kb, {})


async def test_a_refresh_of_chunks_that_were_replaced_meanwhile_writes_nothing(
    tenant: Tenant, indexer: Replica
) -> None:
    """The truth is read in several reads: the row may be older than the document it is compared with."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", TEXT, revision=3))
    document = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert document is not None

    with pytest.raises(StaleDecision):
        await replace_document(tenant.database, await the_job(tenant), kb, document=document, chunks=None)

    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})


async def test_a_command_without_a_job_does_nothing(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    kb: KnowledgeBase = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = (await the_job(tenant)).command()
    await indexer.work()

    # By a replica that has not indexed it, and so does not watch when it is found.
    await rival.sync.handle(_as_record(command))

    assert rival_command_log.names() == [f"update {index_jobs.NAME}"]
    await tenant.assert_holds(kb, {"d": TEXT})


async def _swept(indexer: Replica) -> bool:
    return await indexer.sweeper.sweep() > 0


def _as_record(command: SyncDocument) -> Record:
    return record(encode(command, source="/test"), topic=topics.INDEX_REQUESTS.name)
