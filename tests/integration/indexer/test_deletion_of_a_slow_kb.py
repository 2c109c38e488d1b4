"""A KB is deleted while its documents wait for a provider that does not end its answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kb_shared.mongo.database import Database
from tests.hostile_provider import Behaviour, HostileProvider, drips, gives_vectors, hostile_provider, waits
from tests.integration.indexer.support import DIMENSIONS, LANES, Replica, Tenant, record, replica, text_of
from tests.waiting import until


@asynccontextmanager
async def indexing_at(database: Database, behaviour: Behaviour) -> AsyncIterator[tuple[Replica, HostileProvider]]:
    async with hostile_provider(behaviour) as hostile, replica(database, hostile.api_base) as indexer:
        yield indexer, hostile


def begin(indexer: Replica) -> list[asyncio.Task[None]]:
    """Handle all commands that were sent, each in a slot of its own."""
    messages = indexer.producer.sent_to(*LANES)
    return [
        asyncio.create_task(indexer.sync.handle(record(each.value, key=each.key, topic=each.topic)))
        for each in messages
    ]


async def test_provider_calls_of_a_deleted_kb_are_cancelled_and_its_slots_are_free(
    shared_database: Database, tenant: Tenant
) -> None:
    async with indexing_at(shared_database, drips(0.05)) as (indexer, hostile):
        # What both want is asked for in the same calls.
        kbs = [await tenant.create_kb("a"), await tenant.create_kb("b")]
        await indexer.publish(*(tenant.ocr(f"d{n}", text_of(n), tags=["ab"[n % 2]]) for n in range(8)))
        slots = begin(indexer)
        await hostile.wait_for_requests()
        for kb in kbs:
            await indexer.begin_deletion_of_kb(kb)
            await indexer.deletions.interrupt_deleted()

        await until(lambda: all(slot.done() for slot in slots), within_s=20, what="all slots are free")
        await hostile.wait_until_disconnected()
        await asyncio.gather(*slots)
        assert await tenant.jobs() == {}
        for kb in kbs:
            await indexer.finish_deletion_of_kb(kb)
            await tenant.assert_gone(kb)
    assert await tenant.spus() == 0


async def test_provider_calls_of_another_kb_go_on(shared_database: Database, tenant: Tenant) -> None:
    may_answer = asyncio.Event()
    behaviour = waits(may_answer, gives_vectors(DIMENSIONS))
    async with indexing_at(shared_database, behaviour) as (indexer, hostile):
        deleted, stays = await tenant.create_kb("a"), await tenant.create_kb("a")
        # The same texts are wanted by both, and asked for once.
        await indexer.publish(*(tenant.ocr(f"d{n}", text_of(n)) for n in range(3)))
        slots = begin(indexer)
        assert len(slots) == 6
        await until(lambda: sum(len(asked.body["input"]) for asked in hostile.asked) == 3)
        await indexer.begin_deletion_of_kb(deleted)
        await indexer.deletions.interrupt_deleted()
        await until(lambda: sum(slot.done() for slot in slots) == 3, within_s=20)
        may_answer.set()
        await asyncio.gather(*slots)
        rows = await shared_database[stays.vector_collection].distinct("document_id")
        assert sorted(rows) == ["d0", "d1", "d2"]
        assert await tenant.spus() == 3
        await tenant.assert_settled()
