"""Another operation commits in the middle of a swap or a removal, at each statement of it.

Leases expire at once here, and the other operation's own commands are handled by a rival before the swap goes on: what
comes out right does so because of the fences alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from pymongo.errors import OperationFailure

from kb_shared import failpoints
from kb_shared.mongo import kb_slots
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import LANES, CommandLog, Replica, Tenant, chunks_for, record, text_of
from tests.waiting import DEADLINE_S, until

OLD, NEW, NEWEST = text_of(1, 2, 3), text_of(0, 1, 3, 4), text_of(1, 5, 6, 7)


@dataclass
class RaceSetup:
    """A document `d` on its way into, or out of, a KB with tag `a`; `rival` acts for all other processes."""

    tenant: Tenant
    expired_leases_replica: Replica
    rival: Replica
    rival_command_log: CommandLog
    kb: KnowledgeBase

    async def delete_document(self) -> None:
        await self.rival.publish(self.tenant.deleted("d", revision=100))

    async def untag_document(self) -> None:
        await self.rival.publish(self.tenant.tagged("d", "z", revision=100))

    async def retag_document(self) -> None:
        await self.rival.publish(self.tenant.tagged("d", "a", "b", revision=100))

    async def scan_document_again(self) -> None:
        await self.rival.publish(self.tenant.ocr("d", NEWEST, revision=100))

    async def delete_kb(self) -> None:
        await self.rival.begin_deletion_of_kb(self.kb)

    async def retag_kb_away(self) -> None:
        await self.rival.retag_kb(self.kb, "b")

    async def retag_kb_to_z(self) -> None:
        await self.rival.retag_kb(self.kb, "z")

    async def finish(self) -> None:
        """Handle all that is open, however long it would have waited."""

        async def nothing_is_open() -> bool:
            for replica in (self.expired_leases_replica, self.rival):
                await replica.scan()
                await replica.work()
            await self.tenant.make_due()
            return not await self.tenant.jobs()

        await until(nothing_is_open)


@pytest.fixture
async def race(
    tenant: Tenant, expired_leases_replica: Replica, rival: Replica, rival_command_log: CommandLog
) -> RaceSetup:
    return RaceSetup(tenant, expired_leases_replica, rival, rival_command_log, await tenant.create_kb("a"))


Operation = Callable[[RaceSetup], Awaitable[None]]


@asynccontextmanager
async def interrupted(race: RaceSetup, failpoint: str, operation: Operation, *, held_up: bool) -> AsyncIterator[None]:
    """Run `operation`, and the commands it leads to, when `failpoint` is reached for the first time.

    Args:
        held_up: what must be so: whether the operation can't commit before the transaction has ended.
    """
    committed = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    committed_in_the_middle: list[bool] = []

    async def commit_and_handle() -> None:
        await operation(race)
        committed.set()
        await race.rival.scan()
        await race.rival.handle_commands()

    async def interrupt() -> None:
        if tasks:
            return
        race.rival_command_log.clear()
        tasks.append(asyncio.create_task(commit_and_handle()))
        if held_up:
            await until(lambda: committed.is_set() or race.rival_command_log.held_up(), every_s=0.005)
        else:
            await until(committed.is_set, what="the commit of the other operation", every_s=0.005)
            # The commands it leads to may still have to wait for the transaction.
            await until(lambda: tasks[0].done() or race.rival_command_log.held_up(), every_s=0.005)
        committed_in_the_middle.append(committed.is_set())

    async with failpoints.during(failpoint, interrupt):
        yield
        assert tasks, f"{failpoint} was not reached"
        async with asyncio.timeout(DEADLINE_S):
            await tasks[0]
    assert committed_in_the_middle == [not held_up]


WRITES_THE_DOCUMENT = (RaceSetup.delete_document, RaceSetup.untag_document, RaceSetup.scan_document_again)
WRITES_THE_SLOTS = (RaceSetup.delete_kb, RaceSetup.retag_kb_away)

SWAP_POINTS = {
    # In the order of a swap: which of the operations can't commit from here on until the transaction has ended.
    "sync.after_chunking": (),
    "swap.after_row": (),
    "swap.after_fence": WRITES_THE_DOCUMENT,
    "swap.after_slot": WRITES_THE_DOCUMENT + WRITES_THE_SLOTS,
    "swap.after_job": WRITES_THE_DOCUMENT + WRITES_THE_SLOTS,
    "swap.after_chunks": WRITES_THE_DOCUMENT + WRITES_THE_SLOTS,
    "swap.before_commit": WRITES_THE_DOCUMENT + WRITES_THE_SLOTS,
    "swap.after_commit": (),
}


# The short form runs each of them once: every second one in a first swap, the others in a later one.
FIRST_SWAP_POINTS, LATER_SWAP_POINTS = (
    [
        point if n % 2 == remainder else pytest.param(point, marks=pytest.mark.long)
        for n, point in enumerate(SWAP_POINTS)
    ]
    for remainder in (0, 1)
)


@pytest.mark.parametrize("operation", WRITES_THE_DOCUMENT + WRITES_THE_SLOTS, ids=lambda o: o.__name__)
@pytest.mark.parametrize("failpoint", FIRST_SWAP_POINTS)
async def test_w8_what_commits_in_the_middle_of_a_first_swap_is_never_undone_by_it(
    race: RaceSetup, failpoint: str, operation: Operation
) -> None:
    await _interrupt_a_swap(race, failpoint, operation, indexed_before=False)


@pytest.mark.parametrize(
    "operation",
    [RaceSetup.delete_document, RaceSetup.scan_document_again, RaceSetup.delete_kb],
    ids=lambda o: o.__name__,
)
@pytest.mark.parametrize("failpoint", LATER_SWAP_POINTS)
async def test_w8_what_commits_in_the_middle_of_a_later_swap_is_never_undone_by_it(
    race: RaceSetup, failpoint: str, operation: Operation
) -> None:
    await _interrupt_a_swap(race, failpoint, operation, indexed_before=True)


async def _interrupt_a_swap(race: RaceSetup, failpoint: str, operation: Operation, *, indexed_before: bool) -> None:
    tenant, indexer = race.tenant, race.expired_leases_replica
    other_kb = await tenant.create_kb("z")
    await indexer.publish(tenant.ocr("bystander", OLD))
    if indexed_before:
        await indexer.publish(tenant.ocr("d", OLD))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", NEW, revision=2))

    async with interrupted(race, failpoint, operation, held_up=operation in SWAP_POINTS[failpoint]):
        await indexer.handle_commands()

    await race.finish()
    if operation is RaceSetup.delete_kb:
        await _assert_deletion_leaves_nothing(race)
    else:
        at_home = {"bystander": OLD} if operation is not RaceSetup.retag_kb_away else {}
        await tenant.assert_holds(
            race.kb, at_home | ({"d": NEWEST} if operation is RaceSetup.scan_document_again else {})
        )
    await tenant.assert_holds(other_kb, {"d": NEW} if operation is RaceSetup.untag_document else {})
    await tenant.assert_settled()


async def test_nothing_enters_a_knowledge_base_whose_deletion_has_begun(race: RaceSetup) -> None:
    await race.expired_leases_replica.publish(race.tenant.ocr("d", OLD))
    async with failpoints.during("sync.after_chunking", race.delete_kb):
        await race.expired_leases_replica.handle_commands()
    await race.tenant.assert_holds(race.kb, {})
    await _assert_deletion_leaves_nothing(race)


async def test_a_swap_that_changes_no_counter_fences_all_the_same(race: RaceSetup) -> None:
    async def enter(session: MongoSession) -> bool:
        return await kb_slots.fence_knowledge_base(
            race.tenant.database,
            session,
            MembershipKey(race.kb.organization_id, race.kb.kb_id, "d"),
            tags_version=race.kb.tags_version,
            documents=0,
            chunks=0,
        )

    async def pause(session: MongoSession) -> None:
        await kb_slots.set_paused(race.tenant.database, session, race.kb.key, paused=True)

    client = race.tenant.database.client
    async with client.start_session() as swap, client.start_session() as other, await swap.start_transaction():
        assert await enter(swap)
        await other.start_transaction()
        with pytest.raises(OperationFailure) as refused:
            await pause(other)
    assert refused.value.has_error_label("TransientTransactionError")


REMOVAL_POINTS = {
    "removal.after_row": (),
    "removal.after_chunks": (
        RaceSetup.delete_document,
        RaceSetup.retag_document,
        RaceSetup.delete_kb,
        RaceSetup.retag_kb_to_z,
    ),
    "removal.before_commit": (
        RaceSetup.delete_document,
        RaceSetup.retag_document,
        RaceSetup.delete_kb,
        RaceSetup.retag_kb_to_z,
    ),
    "removal.after_commit": (),
}


@pytest.mark.parametrize(
    "operation",
    [RaceSetup.delete_document, RaceSetup.retag_document, RaceSetup.delete_kb, RaceSetup.retag_kb_to_z],
    ids=lambda o: o.__name__,
)
@pytest.mark.parametrize("failpoint", REMOVAL_POINTS)
async def test_w8_what_commits_in_the_middle_of_a_removal_is_never_undone_by_it(
    race: RaceSetup, failpoint: str, operation: Operation
) -> None:
    tenant, indexer = race.tenant, race.expired_leases_replica
    await indexer.publish(tenant.ocr("bystander", OLD, tags=["a", "z"]), tenant.ocr("d", OLD))
    await indexer.work()
    await indexer.publish(tenant.tagged("d", "z", revision=2))

    async with interrupted(race, failpoint, operation, held_up=operation in REMOVAL_POINTS[failpoint]):
        await indexer.handle_commands()

    await race.finish()
    if operation is RaceSetup.delete_kb:
        await _assert_deletion_leaves_nothing(race)
    else:
        returns = operation in (RaceSetup.retag_document, RaceSetup.retag_kb_to_z)
        await tenant.assert_holds(race.kb, {"bystander": OLD} | ({"d": OLD} if returns else {}))
    await tenant.assert_settled()


async def test_a_document_that_comes_back_while_it_is_being_removed_is_not_removed(race: RaceSetup) -> None:
    """It would come back all the same, but no search would find it until then."""
    tenant, indexer = race.tenant, race.expired_leases_replica
    await indexer.publish(tenant.ocr("d", OLD))
    await indexer.work()
    await indexer.publish(tenant.tagged("d", "z", revision=2))
    [removal] = indexer.producer.sent_to(*LANES)
    removed: list[str] = []

    async def note() -> None:
        removed.append("d")

    async with (
        failpoints.during("removal.after_row", race.retag_document),
        failpoints.during("removal.before_commit", note),
    ):
        await indexer.sync.handle(record(removal.value, key=removal.key, topic=removal.topic))

    assert removed == []
    await race.finish()
    await tenant.assert_holds(race.kb, {"d": OLD})
    await tenant.assert_settled()


async def test_a_text_that_is_replaced_while_it_is_being_swapped_in_is_not_swapped_in(race: RaceSetup) -> None:
    """The newer text would come all the same, but searches would find the older one until then."""
    tenant, indexer = race.tenant, race.expired_leases_replica
    await indexer.publish(tenant.ocr("d", OLD))
    [command] = indexer.producer.sent_to(*LANES)

    async with failpoints.during("swap.after_row", race.scan_document_again):
        await indexer.sync.handle(record(command.value, key=command.key, topic=command.topic))

    live = tenant.database[race.kb.vector_collection].find({"document_id": "d", "until": None})
    assert {row["chunk_text"] async for row in live} <= {chunk.text for chunk in chunks_for(race.kb, NEWEST)}
    await race.finish()
    await tenant.assert_holds(race.kb, {"d": NEWEST})
    await tenant.assert_settled()


async def _assert_deletion_leaves_nothing(race: RaceSetup) -> None:
    """Whatever the interrupted transaction did must be gone with what was there before, and stay away."""
    await race.rival.finish_deletion_of_kb(race.kb)
    await race.finish()
    await race.tenant.assert_gone(race.kb)
