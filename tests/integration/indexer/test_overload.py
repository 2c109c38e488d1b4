"""What becomes of documents whose transactions end too late, or whose leases run out under way."""

import asyncio
from contextlib import nullcontext
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from kb_indexer.consumer.load import FIRST
from kb_indexer.sync_failures import MAX_ATTEMPTS
from kb_local.python_server import ModelServerProcess
from kb_shared import failpoints
from kb_shared.mongo.index_jobs import IndexJobState
from tests.integration.failing_commands import transaction_ended
from tests.integration.indexer.support import LANES, CommandLog, Replica, Tenant, replica, text_of
from tests.waiting import BRAKE_S, until

TEXT = text_of(1, 2, 3)


@pytest.fixture
def expiring(indexer: Replica) -> Replica:
    """A replica to which every transaction that the server has ended was too old."""
    indexer.sync._lifetime_s = 0
    return indexer


async def test_a_swap_whose_time_is_over_is_called_that_and_lowers_what_is_in_flight(
    tenant: Tenant, expiring: Replica
) -> None:
    kb = await tenant.create_kb("a")
    chunks = tenant.database[kb.vector_collection]
    await expiring.publish(tenant.ocr("d", TEXT))
    async with transaction_ended(tenant.database.client, "insert", namespace=chunks.full_name):
        with capture_logs() as logs:
            await expiring.handle_commands()

    [job] = (await tenant.jobs()).values()
    assert (job.state, job.error_type) == (IndexJobState.PENDING, "transaction_expired")
    events = {line["event"] for line in logs}
    assert {"document.timed_out", "load.lowered", "swap.undone"} <= events
    assert "document.conflicted" not in events
    assert expiring.load.limit() < FIRST

    await tenant.make_due()
    await expiring.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


@pytest.mark.parametrize("alone", [True, False])
async def test_only_a_document_that_was_alone_uses_up_attempts_by_taking_too_long(
    tenant: Tenant, expiring: Replica, alone: bool
) -> None:
    kb = await tenant.create_kb("a")
    chunks = tenant.database[kb.vector_collection]
    await expiring.publish(tenant.ocr("d", TEXT))

    ending = transaction_ended(tenant.database.client, "insert", namespace=chunks.full_name, times=MAX_ATTEMPTS)
    async with ending:
        for _ in range(MAX_ATTEMPTS):
            with nullcontext() if alone else expiring.load.at_work():
                await expiring.work()
            await tenant.make_due()
    [job] = (await tenant.jobs()).values()
    assert job.state is (IndexJobState.FAILED if alone else IndexJobState.PENDING)
    assert job.error_type == "transaction_expired"


async def test_a_worker_whose_lease_another_has_taken_leaves_the_document_to_it(
    tenant: Tenant, model_server: ModelServerProcess, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    async with replica(tenant.database, model_server.api_base, lease=timedelta(0)) as late:
        await late.publish(tenant.ocr("d", TEXT))
        commands = late.producer.sent_to(*LANES)

        taken = False

        async def handle_in_other_replica() -> None:
            nonlocal taken
            if not taken:
                taken = True
                indexer.producer.sent = list(commands)
                await indexer.handle_commands()

        late.producer.sent = list(commands)
        with capture_logs() as logs:
            async with failpoints.during("sync.after_chunking", handle_in_other_replica):
                await late.handle_commands()
        assert [line["event"] for line in logs].count("document.indexed") == 1
        assert "document.left_to_another" in {line["event"] for line in logs}
        assert late.load.limit() < FIRST, "a lease that ran out is a sign of too much at once"
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_worker_goes_on_after_its_lease_ran_out_when_no_other_took_it(
    tenant: Tenant, model_server: ModelServerProcess
) -> None:
    kb = await tenant.create_kb("a")
    async with replica(tenant.database, model_server.api_base, lease=timedelta(0)) as late:
        await late.publish(tenant.ocr("d", TEXT))
        await late.handle_commands()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_newer_request_waits_for_the_swap_and_does_not_undo_it(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    [job] = (await tenant.jobs()).values()
    asked: list[asyncio.Task[None]] = []

    async def ask_again() -> None:
        if not asked:
            asked.append(asyncio.create_task(rival.requests.request([job.command()], occurred_at=job.occurred_at)))
            await until(lambda: asked[0].done() or rival_command_log.held_up(), every_s=0.005)

    rival_command_log.clear()
    with capture_logs() as logs:
        async with failpoints.during("swap.after_chunks", ask_again):
            await indexer.handle_commands()
        await asked[0]
    events = [line["event"] for line in logs]
    assert events.count("document.indexed") == 1
    assert "swap.undone" not in events
    assert (await tenant.jobs()).keys() == {(kb.kb_id, "d")}, "the request is not lost"
    await rival.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_the_lease_of_a_job_that_is_swapped_is_left_alone(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))

    async def keep_leases() -> None:
        async with asyncio.timeout(BRAKE_S):
            await indexer.leases.extend(held_for=timedelta(0))

    with capture_logs() as logs:
        async with failpoints.during("swap.after_chunks", keep_leases):
            await indexer.handle_commands()
    assert "swap.undone" not in {line["event"] for line in logs}
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()
