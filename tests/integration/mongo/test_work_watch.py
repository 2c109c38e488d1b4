import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient
from structlog.testing import capture_logs

from kb_local.mongod import Mongod
from kb_shared.concurrency import work_signal
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.messaging import outbox_relay
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import backfills, knowledge_bases, leases, outbox, work_watch
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.work_watch import WorkWatch
from tests.conftest import RunningMongo
from tests.integration.failing_commands import failing_for
from tests.integration.indexer.support import CommandLog, RecordingProducer
from tests.waiting import DEADLINE_S, until

UNAUTHORIZED, CURSOR_NOT_FOUND, HISTORY_LOST, NO_REPLICA_SET = 13, 43, 286, 40573
NEVER_S = 600.0


@pytest.fixture(autouse=True)
def reading_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_watch, "_PAUSE_S", 0)


@asynccontextmanager
async def watching(database: Database, signals: Mapping[str, tuple[WorkSignal, Sequence[Row]]]) -> AsyncIterator[None]:
    """Watch in the block; the signals that a watch gives when it begins are taken already."""
    task = asyncio.create_task(WorkWatch(database, signals).run())
    try:
        for signal, _ in signals.values():
            assert await signal.wait(DEADLINE_S)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def client_named(mongod: Mongod | RunningMongo, name: str) -> AsyncIterator[AsyncMongoClient[Row]]:
    async with AsyncMongoClient[Row](mongod.uri, tz_aware=True, appname=name) as client:
        yield client


async def until_watching(database: Database, signal: WorkSignal) -> None:
    """Wait until a change is what wakes the task."""
    await until(lambda: signal.is_reliable)
    await signal.wait(0)
    await database[outbox.NAME].insert_one({"sent_at": None})
    assert await signal.wait(DEADLINE_S)


def is_interrupted(logs: Sequence[MutableMapping[str, Any]]) -> Callable[[], bool]:
    return lambda: any(line["event"] == "work_watch.interrupted" for line in logs)


async def test_work_wakes_the_task_that_does_it_and_other_changes_wake_none(database: Database) -> None:
    messages, scans = WorkSignal(), WorkSignal()
    signals = {outbox.NAME: (messages, outbox.WORK), backfills.NAME: (scans, backfills.WORK)}
    async with watching(database, signals):
        sent = await database[outbox.NAME].insert_one({"sent_at": None})
        assert await messages.wait(DEADLINE_S)
        await outbox.mark_sent(database, [sent.inserted_id])
        await database["tags"].insert_one({})
        # Changes are read in their order.
        await database[backfills.NAME].insert_one({})
        assert await scans.wait(DEADLINE_S)
        assert not await messages.wait(0)
        await outbox.send_again(database)
        await database[backfills.NAME].update_one({}, {"$set": {"state": "running"}})
        assert await scans.wait(DEADLINE_S)
        assert await messages.wait(0)


async def test_a_change_of_status_wakes_the_life_cycle_and_a_change_of_counters_does_not(database: Database) -> None:
    kbs, scans = WorkSignal(), WorkSignal()
    await database[knowledge_bases.NAME].insert_one({"status": "active"})
    signals = {knowledge_bases.NAME: (kbs, knowledge_bases.WORK), backfills.NAME: (scans, backfills.WORK)}
    async with watching(database, signals):
        await database[knowledge_bases.NAME].update_one({}, {"$inc": {"document_count": 1}})
        await database[backfills.NAME].insert_one({})
        assert await scans.wait(DEADLINE_S)
        assert not await kbs.wait(0)
        for change in ({"status": "deleting"}, {"filters_building": "x"}, {"index_rebuild": "requested"}):
            await database[knowledge_bases.NAME].update_one({}, {"$set": change})
            await database[backfills.NAME].insert_one({})
            assert await scans.wait(DEADLINE_S)
            assert await kbs.wait(0), change


async def test_tasks_poll_often_until_changes_can_be_watched(
    mongod: Mongod | RunningMongo, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_REFUSAL_S", 0.02)
    name, signal = uuid4().hex, WorkSignal()
    async with client_named(mongod, name) as client:
        watch = WorkWatch(client[database.name], {outbox.NAME: (signal, outbox.WORK)})
        async with failing_for(database.client, "aggregate", app_name=name, code=UNAUTHORIZED):
            task = asyncio.create_task(watch.run())
            assert not await signal.wait(0.2)
            assert not signal.is_reliable
        assert await signal.wait(DEADLINE_S)
        assert signal.is_reliable
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not signal.is_reliable


async def test_a_watch_that_begins_wakes_all_tasks(database: Database) -> None:
    messages, scans = WorkSignal(), WorkSignal()
    signals = {outbox.NAME: (messages, outbox.WORK), backfills.NAME: (scans, backfills.WORK)}
    task = asyncio.create_task(WorkWatch(database, signals).run())
    await until(lambda: messages.is_reliable and scans.is_reliable)
    assert await messages.wait(0)
    assert await scans.wait(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_that_may_not_watch_asks_again_after_a_long_pause(
    mongod: Mongod | RunningMongo, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_S", 0.02)
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_REFUSAL_S", NEVER_S)
    name, signal = uuid4().hex, WorkSignal()
    async with client_named(mongod, name) as client:
        for code in (UNAUTHORIZED, NO_REPLICA_SET):
            with capture_logs() as logs:
                watch = WorkWatch(client[database.name], {outbox.NAME: (signal, outbox.WORK)})
                async with failing_for(database.client, "aggregate", app_name=name, code=code):
                    task = asyncio.create_task(watch.run())
                    await until(is_interrupted(logs))
                # It would begin now, if it asked soon.
                assert not await signal.wait(0.1)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("code", [CURSOR_NOT_FOUND, HISTORY_LOST])
async def test_tasks_are_woken_and_poll_often_while_a_watch_is_interrupted(
    mongod: Mongod | RunningMongo, database: Database, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_S", NEVER_S)
    monkeypatch.setattr(work_watch, "_ANSWER_WITHIN_S", 0.05)
    name, signal = uuid4().hex, WorkSignal()
    with capture_logs() as logs:
        async with (
            client_named(mongod, name) as client,
            watching(client[database.name], {outbox.NAME: (signal, outbox.WORK)}),
            failing_for(database.client, "getMore", app_name=name, code=code),
        ):
            await until(is_interrupted(logs))
            assert not signal.is_reliable
            # The task may be in a long pause, and the change that should end it may be missed.
            assert await signal.wait(0)


async def test_a_watch_that_was_interrupted_begins_again(
    mongod: Mongod | RunningMongo, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_S", 0.02)
    monkeypatch.setattr(work_watch, "_ANSWER_WITHIN_S", 0.05)
    name, signal = uuid4().hex, WorkSignal()
    with capture_logs() as logs:
        async with (
            client_named(mongod, name) as client,
            watching(client[database.name], {outbox.NAME: (signal, outbox.WORK)}),
        ):
            async with failing_for(database.client, "getMore", app_name=name, code=CURSOR_NOT_FOUND):
                await until(is_interrupted(logs))
            await until_watching(database, signal)


async def test_a_watch_begins_again_after_mongodb_has_closed_its_stream(
    mongo_client: AsyncMongoClient[Row], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_S", 0.02)
    signal = WorkSignal()
    await database[outbox.NAME].insert_one({"sent_at": None})
    async with watching(database, {outbox.NAME: (signal, outbox.WORK)}):
        await mongo_client.drop_database(database.name)
        assert await signal.wait(DEADLINE_S)
        await until_watching(database, signal)


async def test_an_answer_that_does_not_come_interrupts_the_watch(
    mongod: Mongod | RunningMongo, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_watch, "_AGAIN_AFTER_S", NEVER_S)
    monkeypatch.setattr(work_watch, "_ANSWER_WITHIN_S", 0.05)
    name, signal = uuid4().hex, WorkSignal()
    with capture_logs() as logs:
        async with (
            client_named(mongod, name) as client,
            watching(client[database.name], {outbox.NAME: (signal, outbox.WORK)}),
        ):
            monkeypatch.setattr(work_watch, "_LATE_AFTER_S", 0.02)
            # The answer to what was asked before.
            await database[outbox.NAME].insert_one({"sent_at": None})
            assert await signal.wait(DEADLINE_S)
            # A watch that waits longer learns of this failure instead.
            async with failing_for(database.client, "getMore", app_name=name, code=CURSOR_NOT_FOUND, after_s=0.3):
                await until(is_interrupted(logs))
    assert [line["error"] for line in logs] == ["TimeoutError"]


async def test_the_time_limit_of_the_client_is_not_that_of_an_answer(mongod: Mongod | RunningMongo) -> None:
    signal, log = WorkSignal(), CommandLog()
    async with (
        AsyncMongoClient[Row](mongod.uri, timeoutMS=20_000, event_listeners=[log]) as client,
        watching(client[uuid4().hex], {outbox.NAME: (signal, outbox.WORK)}),
    ):
        await until(lambda: any("getMore" in command for command in log.commands))
    limits = {command["maxTimeMS"] for command in log.commands if "getMore" in command}
    assert limits == {work_watch._ANSWER_WITHIN_S * 1000}


async def test_an_idle_relay_is_woken_by_a_message_that_another_process_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_signal, "STAYS_AWAKE_S", 0)
    stop, messages = asyncio.Event(), WorkSignal()
    producer = RecordingProducer()
    relay = OutboxRelay(database, producer, topic_prefix="", signal=messages)
    relay._pause = PollPause(messages, shortest_s=NEVER_S)
    relaying = asyncio.create_task(relay.run(stop))
    watching_for_it = asyncio.create_task(WorkWatch(database, {outbox.NAME: (messages, outbox.WORK)}).run())
    await until(lambda: messages.is_reliable and bool(relay._buckets))
    for number in range(3):
        await database[outbox.NAME].insert_one(
            {"topic": "t", "key": "k", "value": b"v", "ordering": "o", "seq": number, "bucket": 0, "sent_at": None}
        )
        await until(lambda: len(producer.sent) > number)  # noqa: B023  # awaited in the same turn
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await relaying
    watching_for_it.cancel()
    await asyncio.gather(watching_for_it, return_exceptions=True)


async def test_an_idle_relay_sends_what_waits_in_a_bucket_that_it_takes_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_signal, "STAYS_AWAKE_S", 0)
    monkeypatch.setattr(outbox_relay, "_RENEW_S", 0.05)
    stop, producer, messages = asyncio.Event(), RecordingProducer(), WorkSignal(is_reliable=True)
    relay = OutboxRelay(database, producer, topic_prefix="", signal=messages)
    relay._pause = PollPause(messages, shortest_s=NEVER_S)
    lease = outbox.build_lease_name(0)
    assert await leases.acquire(database, lease, owner="another", length=timedelta(minutes=10))
    await database[outbox.NAME].insert_one(
        {"topic": "t", "key": "k", "value": b"v", "ordering": "o", "seq": 0, "bucket": 0, "sent_at": None}
    )
    relaying = asyncio.create_task(relay.run(stop))
    await until(lambda: len(relay._buckets) == outbox.BUCKETS - 1)
    await leases.release(database, lease, owner="another")
    await until(lambda: bool(producer.sent))
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await relaying
