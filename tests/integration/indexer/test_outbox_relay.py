import asyncio
import random
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, ExecutionTimeout

from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, DocumentIndexed
from kb_local.mongod import Mongod
from kb_shared import failpoints
from kb_shared.errors import TransientError
from kb_shared.kafka.headers import to_wire
from kb_shared.kafka.producer import DeliveryOutcome, ProducerMessage
from kb_shared.messaging import outbox_relay
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import leases, outbox
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from tests.conftest import RunningMongo
from tests.integration.indexer.support import CommandLog, RecordingProducer
from tests.waiting import DEADLINE_S, until

KB = "0123456789abcdef01234567"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Crash(Exception):
    """The process ends here."""


@pytest.fixture(autouse=True)
async def _use_short_relay_intervals(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_relay, "_RENEW_S", 0.05)
    monkeypatch.setattr(outbox_relay, "_AFTER_FAILURE_S", 0.1)
    await database[outbox.NAME].create_indexes(outbox.INDEXES)


async def add(database: Database, document_id: str, seq: int) -> None:
    """Leave a message whose `revision` is its `seq`."""

    async def work(session: MongoSession) -> None:
        message = outbox.NewMessage(
            DocumentIndexed(organization_id="acme", kb_id=KB, document_id=document_id, revision=seq, chunk_count=1),
            topic="kb-events",
            key=f"acme/{KB}",
            ordering=f"{KB}/{document_id}",
            seq=seq,
            source="/test",
            traceparent=TRACEPARENT,
        )
        await outbox.add(database, session, [message])

    await in_transaction(database, work)


def list_announcements(messages: Sequence[ProducerMessage]) -> list[tuple[str, int]]:
    """(document, seq) of what was sent."""
    outcomes = [decode(message.value, KB_EVENTS)[1] for message in messages]
    return [(o.document_id, o.revision) for o in outcomes if isinstance(o, DocumentIndexed)]


@asynccontextmanager
async def running(relay: OutboxRelay) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(relay.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


async def test_only_what_a_majority_has_is_sent(mongod: RunningMongo | Mongod, database: Database) -> None:
    commands = CommandLog()
    async with AsyncMongoClient[Row](mongod.uri, tz_aware=True, event_listeners=[commands]) as client:
        watched = client[database.name]
        await add(watched, "d", 1)
        async with running(OutboxRelay(watched, RecordingProducer(), topic_prefix="")):
            await until_all_sent(watched)
    finds = [command for command in commands.commands if command.get("find") == outbox.NAME]
    looks = [command for command in finds if "bucket" in command["filter"]]
    assert looks
    assert {command["readConcern"].get("level") for command in looks} == {"majority"}


async def test_a_backlog_that_takes_too_long_to_count_is_sent(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(_: Database) -> int:
        raise ExecutionTimeout("operation exceeded time limit", 50)

    producer = RecordingProducer()
    await add(database, "d", 1)
    monkeypatch.setattr(outbox, "count_unsent", too_long)
    async with running(OutboxRelay(database, producer, topic_prefix="")):

        async def sent() -> bool:
            return list_announcements(producer.sent) == [("d", 1)]

        await until(sent)


async def test_the_age_of_the_oldest_message_grows_while_messages_can_not_be_sent_and_is_0_without_any(
    database: Database,
) -> None:
    class AwayProducer(RecordingProducer):
        away = True

        async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
            return [TransientError("away")] * len(messages) if self.away else await super().send_each(messages)

    def age_s() -> float:
        return REGISTRY.get_sample_value("kb_outbox_oldest_age_seconds") or 0

    producer = AwayProducer()
    for n in range(3):
        await add(database, f"d{n}", 1)
    hours = [timedelta(hours=hours) for hours in (1, 3, 2)]
    for n, age in enumerate(hours):
        of_document = {"ordering": f"{KB}/d{n}"}
        await database[outbox.NAME].update_one(of_document, {"$set": {"created_at": datetime.now(UTC) - age}})
    async with running(OutboxRelay(database, producer, topic_prefix="")):
        await until(lambda: age_s() == pytest.approx(3 * 3600, abs=600))
        producer.away = False
        await until(lambda: age_s() == 0)
    assert len(producer.sent) == 3


async def test_the_oldest_message_of_many_is_found_without_reading_all_of_them(database: Database) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    rows = [{"sent_at": None, "ordering": str(n), "created_at": now + timedelta(seconds=n)} for n in range(1_000)]
    await database[outbox.NAME].insert_many(rows)
    await database.command("profile", 2)
    assert await outbox.find_oldest_unsent(database) == now
    await database.command("profile", 0)
    [profiled] = await database["system.profile"].find({"command.find": outbox.NAME}).to_list()
    assert (profiled["docsExamined"], profiled["keysExamined"]) == (100, 100)


async def test_a_relay_whose_leases_end_by_a_bug_ends(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def acquire(*_: object, **__: object) -> bool:
        raise AssertionError("a bug")

    monkeypatch.setattr(leases, "acquire", acquire)
    monkeypatch.setattr(outbox_relay, "_LAST_BATCH_S", 0.1)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(AssertionError, match="a bug"):
            await OutboxRelay(database, RecordingProducer(), topic_prefix="").run(asyncio.Event())


async def until_all_sent(database: Database) -> None:
    async def all_sent() -> bool:
        return await outbox.count_unsent(database) == 0

    await until(all_sent)


async def test_a_poll_of_the_outbox_reads_one_index_without_sorting(database: Database) -> None:
    """Twenty looks a second, all day: merging what the buckets hold was most of what an idle deployment cost."""
    for number in range(40):
        await add(database, f"d{number}", 1)
    await database.command("profile", 2)
    found = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=30)
    await database.command("profile", 0)
    [look] = await database["system.profile"].find({"ns": f"{database.name}.{outbox.NAME}", "op": "query"}).to_list()
    assert (len(found), look["planSummary"]) == (30, "IXSCAN { bucket: 1, ordering: 1, seq: 1, _id: 1 }")
    assert "hasSortStage" not in look
    assert look["docsExamined"] == 30


async def test_messages_of_one_ordering_are_sent_in_its_order_and_once(database: Database) -> None:
    added = [(f"d{n}", seq) for n in range(5) for seq in range(8)]
    for document_id, seq in random.Random(3).sample(added, len(added)):
        await add(database, document_id, seq)
    producer = RecordingProducer()

    async with running(OutboxRelay(database, producer, topic_prefix="prefix.")):
        await until_all_sent(database)

    assert sorted(list_announcements(producer.sent)) == added
    for n in range(5):
        assert [seq for document_id, seq in list_announcements(producer.sent) if document_id == f"d{n}"] == list(
            range(8)
        )
    message = producer.sent[0]
    assert (message.topic, message.key) == ("prefix.kb-events", f"acme/{KB}".encode())
    assert ("traceparent", TRACEPARENT.encode()) in to_wire(message.headers)


async def test_a_record_that_came_once_is_sent_byte_for_byte(database: Database) -> None:
    headers = [("content-type", b"text/malformed"), ("twice", b"\xff"), ("twice", b"")]

    async def work(session: MongoSession) -> None:
        for key, value in ((b"\xff\x00/", b"\xfe not JSON"), (None, None)):
            received = outbox.ReceivedRecord("document-events", key, value, headers, TRACEPARENT)
            await outbox.add_records(database, session, [received], ordering=f"letter/{key!r}")

    await in_transaction(database, work)
    producer = RecordingProducer()
    async with running(OutboxRelay(database, producer, topic_prefix="prefix.")):
        await until_all_sent(database)
    sent = {(message.key, message.value) for message in producer.sent}
    assert sent == {(b"\xff\x00/", b"\xfe not JSON"), (None, None)}
    assert {message.topic for message in producer.sent} == {"prefix.document-events"}
    assert all(to_wire(message.headers) == headers for message in producer.sent)


async def test_a_message_sent_before_a_crash_could_note_it_is_sent_again_unchanged(database: Database) -> None:
    for seq in range(3):
        await add(database, "d", seq)

    async def crash() -> None:
        raise Crash

    dying, heir = RecordingProducer(), RecordingProducer()
    async with failpoints.during("outbox.after_send", crash):
        with pytest.raises(Crash):
            await OutboxRelay(database, dying, topic_prefix="").run(asyncio.Event())
    async with running(OutboxRelay(database, heir, topic_prefix="")):
        await until_all_sent(database)

    assert list_announcements(heir.sent) == [("d", 0), ("d", 1), ("d", 2)]
    assert [message.value for message in heir.sent] == [message.value for message in dying.sent]


async def test_a_broker_that_is_away_holds_messages_up_and_loses_none(database: Database) -> None:
    class UnavailableAtFirst(RecordingProducer):
        refusals = 0

        async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
            if self.refusals < 3:
                self.refusals += 1
                return [TransientError("away")] * len(messages)
            return await super().send_each(messages)

    await add(database, "d", 0)
    producer = UnavailableAtFirst()
    async with running(OutboxRelay(database, producer, topic_prefix="")):
        await until_all_sent(database)

    assert producer.refusals == 3
    assert list_announcements(producer.sent) == [("d", 0)]


async def test_a_relay_that_is_not_sure_of_its_leases_sends_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another relay may have taken the buckets meanwhile: both would send, and an older message after a newer one."""
    take_all, rounds = leases.take_all, 0

    async def taken_once(database: Database, names: Collection[str], *, owner: str, length: timedelta) -> set[str]:
        nonlocal rounds
        rounds += 1
        if rounds > 1:
            raise AutoReconnect("the primary stepped down")
        return await take_all(database, names, owner=owner, length=length)

    monkeypatch.setattr(leases, "take_all", taken_once)
    producer = RecordingProducer()
    relay = OutboxRelay(database, producer, topic_prefix="")
    keeping = asyncio.create_task(relay._keep_leases())
    # The third round begins once all is done that the failure of the second one leads to.
    await until(lambda: rounds > 2)
    await add(database, "d", 0)
    await relay._send_some()
    keeping.cancel()
    assert list_announcements(producer.sent) == []


async def test_a_relay_that_can_not_send_leaves_its_buckets_to_another_at_once(database: Database) -> None:
    class Unavailable(RecordingProducer):
        async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
            return [TransientError("away")] * len(messages)

    relay = OutboxRelay(database, Unavailable(), topic_prefix="")
    relay._buckets = await relay._take_buckets()
    assert len(relay._buckets) == outbox.BUCKETS
    await add(database, "d", 0)
    await relay._send_some()
    for bucket in range(outbox.BUCKETS):
        assert await leases.acquire(database, f"outbox/{bucket}", owner="another", length=timedelta(minutes=1))


async def test_a_relay_without_acknowledgements_ends_in_time_and_the_next_sends_its_messages(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(RecordingProducer):
        async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
            self.sent.extend(messages)
            await asyncio.Event().wait()
            return []

    await add(database, "d", 0)
    in_a_service_s = outbox_relay._LAST_BATCH_S
    monkeypatch.setattr(outbox_relay, "_LAST_BATCH_S", 0.1)
    silent, producer, stop = Silent(), RecordingProducer(), asyncio.Event()
    relay = asyncio.create_task(OutboxRelay(database, silent, topic_prefix="").run(stop))
    await until(lambda: bool(silent.sent))
    stop.set()
    async with asyncio.timeout(20 - in_a_service_s):
        await relay
    async with running(OutboxRelay(database, producer, topic_prefix="")):
        await until_all_sent(database)
    assert list_announcements(producer.sent) == [("d", 0)]


async def test_two_relays_share_the_buckets_and_one_takes_over_what_the_other_leaves(database: Database) -> None:
    producers = [RecordingProducer(), RecordingProducer()]
    relays = [OutboxRelay(database, producer, topic_prefix="") for producer in producers]
    for bucket in range(outbox.BUCKETS):
        owner = relays[bucket % 2]._owner
        assert await leases.acquire(database, f"outbox/{bucket}", owner=owner, length=timedelta(minutes=1))
    first, second = [f"d{n}" for n in range(40)], [f"e{n}" for n in range(40)]

    async with running(relays[1]):
        async with running(relays[0]):
            for document_id in first:
                await add(database, document_id, 0)
            await until_all_sent(database)
        assert await database[leases.NAME].count_documents({"owner": relays[0]._owner}) == 0
        shares = [{document_id for document_id, _ in list_announcements(producer.sent)} for producer in producers]
        assert all(shares)
        assert shares[0].isdisjoint(shares[1])
        assert shares[0] | shares[1] == set(first)

        for document_id in second:
            await add(database, document_id, 0)
        await until_all_sent(database)

    assert sorted(list_announcements(producers[0].sent) + list_announcements(producers[1].sent)) == sorted(
        (d, 0) for d in first + second
    )


async def test_the_buckets_of_a_relay_that_died_are_taken_over_when_its_leases_expire(database: Database) -> None:
    for bucket in range(outbox.BUCKETS):
        assert await leases.acquire(database, f"outbox/{bucket}", owner="the dead", length=timedelta(milliseconds=500))
    await add(database, "d", 0)
    producer = RecordingProducer()

    async with running(OutboxRelay(database, producer, topic_prefix="")):
        await until_all_sent(database)

    assert list_announcements(producer.sent) == [("d", 0)]
