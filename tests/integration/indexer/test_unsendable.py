"""A message that Kafka refuses for good is neither lost nor in the way of others."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from bson import ObjectId
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.documents import TagsChanged
from kb_contracts.outcomes import KB_EVENTS, DocumentIndexed, DocumentRejected
from kb_shared import failpoints
from kb_shared.errors import MessageRefused, TransientError
from kb_shared.kafka.producer import DeliveryOutcome, ProducerMessage
from kb_shared.messaging import outbox_relay
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.messaging.unsendable_messages import mark_unsendable
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.outbox import Unsendable
from tests.integration.indexer.support import RecordingProducer
from tests.waiting import DEADLINE_S, until

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KB = "0123456789abcdef01234567"


class Crash(Exception):
    """The process ends here."""


class Refusing(RecordingProducer):
    """Refuses for good what holds one of `words`, and fails for now with what holds one of `away`."""

    def __init__(self, *words: str, away: Collection[str] = ()) -> None:
        super().__init__()
        self.words = words
        self.away = away

    async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        outcomes = [self._outcome(str(message.value)) for message in messages]
        self.sent += [message for message, outcome in zip(messages, outcomes, strict=True) if outcome is None]
        return outcomes

    def _outcome(self, value: str) -> DeliveryOutcome:
        if any(word in value for word in self.words):
            return MessageRefused("the message is too large for Kafka", reason="too-large")
        return TransientError("away") if any(word in value for word in self.away) else None


class RefusingBatches(RecordingProducer):
    """Takes three messages as a batch, and refuses a batch as a whole for one message in it, as brokers do."""

    async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        outcomes: list[DeliveryOutcome] = []
        for start in range(0, len(messages), 3):
            batch = messages[start : start + 3]
            if any("refused" in str(message.value) for message in batch):
                outcomes += [MessageRefused("the message is too large for Kafka", reason="too-large")] * len(batch)
            else:
                self.sent += batch
                outcomes += [None] * len(batch)
        return outcomes


@pytest.fixture(autouse=True)
async def _use_short_relay_intervals(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_relay, "_RENEW_S", 0.02)
    monkeypatch.setattr(outbox_relay, "_PAUSE_S", 0.01)
    monkeypatch.setattr(outbox_relay, "_AFTER_FAILURE_S", 0.1)
    await database[outbox.NAME].create_indexes(outbox.INDEXES)


@pytest.fixture
def organization_id() -> str:
    return f"org-{uuid4().hex[:8]}"


async def add(database: Database, organization_id: str, *tag_ids: str) -> None:
    """Leave an event of document `d1` for each tag, in this order."""

    async def work(session: MongoSession) -> None:
        messages = [
            outbox.NewMessage(
                TagsChanged(organization_id=organization_id, document_id="d1", revision=1, tag_ids=[tag_id]),
                topic=topics.DOCUMENT_EVENTS.name,
                key=f"{organization_id}/d1",
                ordering=f"document/{organization_id}/d1",
                seq=seq,
                source="/test",
                traceparent=TRACEPARENT,
            )
            for seq, tag_id in enumerate(tag_ids)
        ]
        await outbox.add(database, session, messages)

    await in_transaction(database, work)


def tags_in(messages: Sequence[ProducerMessage]) -> list[str]:
    events = [message.value for message in messages if message.topic == topics.DOCUMENT_EVENTS.name]
    return [decode(value, {TagsChanged.TYPE: TagsChanged})[1].tag_ids[0] for value in events]


def rejections_in(messages: Sequence[ProducerMessage]) -> list[DocumentRejected]:
    announced = [message.value for message in messages if message.topic == topics.KB_EVENTS.name]
    return [outcome for value in announced if isinstance(outcome := decode(value, KB_EVENTS)[1], DocumentRejected)]


async def listed(database: Database, organization_id: str) -> list[Unsendable]:
    found, total = await outbox.find_unsendable_page(
        database, [organization_id], topic=None, reason=None, skip=0, limit=100
    )
    assert total == len(found)
    return found


@asynccontextmanager
async def running(database: Database, producer: RecordingProducer) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(OutboxRelay(database, producer, topic_prefix="").run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


async def until_nothing_waits(database: Database) -> None:
    async def nothing_waits() -> bool:
        return await outbox.count_unsent(database) == 0

    await until(nothing_waits)


def counted(topic: str, reason: str) -> float:
    return REGISTRY.get_sample_value("kb_outbox_unsendable_total", {"topic": topic, "reason": reason}) or 0.0


async def test_a_refused_message_is_kept_with_its_reason_and_those_after_it_are_sent(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "before", "refused", "after")
    before = counted("document-events", "too-large")
    producer = Refusing("refused")
    async with running(database, producer):
        await until_nothing_waits(database)
        await until(lambda: REGISTRY.get_sample_value("kb_outbox_set_aside") == 1)
    assert tags_in(producer.sent) == ["before", "after"]
    [unsendable] = await listed(database, organization_id)
    assert (unsendable.topic, unsendable.document_id, unsendable.reason) == ("document-events", "d1", "too-large")
    assert unsendable.size_bytes > 200
    assert unsendable.redriven_at is None
    assert counted("document-events", "too-large") - before == 1


async def test_messages_that_were_in_one_batch_with_a_refused_one_are_sent_in_their_order(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "1", "refused", "3", "4")
    producer = RefusingBatches()
    async with running(database, producer):
        await until_nothing_waits(database)
    assert [message.document_id for message in await listed(database, organization_id)] == ["d1"]
    # The fourth arrived before the others were sent alone: it is sent again after them.
    assert tags_in(producer.sent) == ["4", "1", "3", "4"]


async def test_a_rejection_is_announced_to_the_upstream_of_a_refused_event(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused")
    producer = Refusing("refused")
    async with running(database, producer):
        await until(lambda: len(rejections_in(producer.sent)) == 1)
        await until_nothing_waits(database)
    [rejected] = rejections_in(producer.sent)
    assert (rejected.organization_id, rejected.document_id) == (organization_id, "d1")
    assert rejected.reason == "too-large"
    assert "text_ref" in rejected.detail
    [message] = await listed(database, organization_id)
    assert rejected.event_type == "document.tags_changed.v1"
    row = await database[outbox.NAME].find_one({"_id": ObjectId(message.message_id)})
    assert row is not None
    assert rejected.event_id == json.loads(row["value"])["id"]
    assert (rejected.topic, rejected.message_id) == (topics.DOCUMENT_EVENTS.name, message.message_id)
    assert (rejected.partition, rejected.offset, rejected.dead_letter_id) == (None, None, None)


async def test_a_refused_message_without_a_document_event_is_kept_and_announces_no_rejection(
    database: Database, organization_id: str
) -> None:
    async def work(session: MongoSession) -> None:
        outcome = DocumentIndexed(
            organization_id=organization_id, kb_id=KB, document_id="d1", revision=1, chunk_count=1
        )
        message = outbox.NewMessage(
            outcome,
            topic=topics.KB_EVENTS.name,
            key=f"{organization_id}/{KB}",
            ordering="o",
            seq=0,
            source="/test",
            traceparent=TRACEPARENT,
        )
        await outbox.add(database, session, [message])

    await in_transaction(database, work)
    producer = Refusing(organization_id)
    async with running(database, producer):
        await until_nothing_waits(database)
    [unsendable] = await listed(database, organization_id)
    assert unsendable.topic == "kb-events"
    assert producer.sent == []


async def test_a_crash_between_refusal_and_its_note_repeats_both_and_announces_one_rejection(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused", "after")

    async def crash() -> None:
        raise Crash

    async with failpoints.during("outbox.after_send", crash):
        with pytest.raises(Crash):
            await OutboxRelay(database, Refusing("refused"), topic_prefix="").run(asyncio.Event())
    producer = Refusing("refused")
    async with running(database, producer):
        await until(lambda: len(rejections_in(producer.sent)) == 1)
        await until_nothing_waits(database)
    assert tags_in(producer.sent) == ["after"]
    assert len(rejections_in(producer.sent)) == 1


async def test_a_message_refused_for_two_relays_is_announced_and_counted_once(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused")
    [message] = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    before = counted("document-events", "too-large")
    for _ in range(2):
        await mark_unsendable(database, message, refusal=MessageRefused("too large", reason="too-large"), size_bytes=1)
    assert len(await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)) == 1
    assert counted("document-events", "too-large") - before == 1


async def test_a_redriven_message_is_sent_once_however_often_it_is_asked_for(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused")
    producer = Refusing("refused")
    async with running(database, producer):
        await until_nothing_waits(database)
        [unsendable] = await listed(database, organization_id)
        producer.words = ()
        redriven = [
            await outbox.redrive(database, [organization_id], ObjectId(unsendable.message_id), by=by)
            for by in ("first", "second")
        ]
        await until(lambda: tags_in(producer.sent) == ["refused"])
        await until_nothing_waits(database)
        again = await outbox.redrive(database, [organization_id], ObjectId(unsendable.message_id), by="third")
    assert [each and (each.redriven_by, each.unsendable_at) for each in (*redriven, again)] == [("first", None)] * 3
    assert await listed(database, organization_id) == []
    assert tags_in(producer.sent) == ["refused"]


async def test_a_redriven_message_that_is_refused_again_is_listed_again(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused")
    async with running(database, Refusing("refused")):
        await until_nothing_waits(database)
        [first] = await listed(database, organization_id)
        await outbox.redrive(database, [organization_id], ObjectId(first.message_id), by="me")
        await until_nothing_waits(database)
    [second] = await listed(database, organization_id)
    assert (second.message_id, second.redriven_by) == (first.message_id, "me")


async def test_only_an_organizations_own_refused_messages_are_redriven(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused", "sent")
    async with running(database, Refusing("refused")):
        await until_nothing_waits(database)
    ids = [row["_id"] async for row in database[outbox.NAME].find({"topic": "document-events"}).sort("seq")]
    assert await outbox.redrive(database, ["another"], ids[0], by="me") is None
    assert await outbox.redrive(database, [organization_id], ids[1], by="me") is None
    assert len(await listed(database, organization_id)) == 1


async def test_sending_everything_again_after_a_broker_was_lost_leaves_out_what_it_refused(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "refused", "sent")
    async with running(database, Refusing("refused")):
        await until_nothing_waits(database)
    await outbox.send_again(database)
    assert len(await listed(database, organization_id)) == 1
    waiting = await outbox.find_unsent(database, range(outbox.BUCKETS), limit=10)
    assert [b"refused" in (message.value or b"") for message in waiting if message.topic == "document-events"] == [
        False
    ]


async def test_a_refused_message_is_kept_for_90_days_and_not_for_7(database: Database, organization_id: str) -> None:
    """MongoDB drops rows by the two fields with a limit: a row goes when either is a time that is long ago."""
    await add(database, organization_id, "refused")
    async with running(database, Refusing("refused")):
        await until_nothing_waits(database)
    row = await database[outbox.NAME].find_one({"topic": "document-events"})
    assert row is not None
    limits = {
        next(iter(index["key"])): timedelta(seconds=index["expireAfterSeconds"])
        async for index in await database[outbox.NAME].list_indexes()
        if "expireAfterSeconds" in index
    }
    expires = {name: row[name] + kept_for for name, kept_for in limits.items() if isinstance(row[name], datetime)}
    assert expires.keys() == {"unsendable_at"}
    assert expires["unsendable_at"] - datetime.now(UTC) > timedelta(days=89)


async def test_a_message_held_back_by_a_failure_is_sent_again_with_the_later_ones_of_its_ordering(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "first", "held-back", "third")
    await add(database, f"{organization_id}-b", "elsewhere")
    producer = Refusing(away=["held-back"])
    async with running(database, producer):
        await until(lambda: "third" in tags_in(producer.sent))
        producer.away = ()
        await until_nothing_waits(database)
    sent = tags_in(producer.sent)
    assert sent[-2:] == ["held-back", "third"]
    assert (sent.count("first"), sent.count("elsewhere")) == (1, 1)


async def test_a_missing_right_refuses_nothing_and_is_logged_once_with_its_name(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, "tag")
    failure = TransientError("Kafka did not take the message (TopicAuthorizationFailedError)")
    attempts = 0

    class Forbidden(RecordingProducer):
        async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
            nonlocal attempts
            attempts += 1
            return [failure] * len(messages)

    with capture_logs() as logged:
        async with running(database, Forbidden()):
            await until(lambda: attempts > 2)
    assert [line["reason"] for line in logged if line["event"] == "outbox.send_failed"] == [str(failure)]
    assert await outbox.count_unsent(database) == 1
    assert await listed(database, organization_id) == []


async def test_an_unsendable_message_is_not_in_the_index_that_the_relay_reads(
    database: Database, organization_id: str
) -> None:
    await add(database, organization_id, *(f"refused-{number}" for number in range(30)))
    for message in await outbox.find_unsent(database, range(outbox.BUCKETS), limit=100):
        await mark_unsendable(database, message, refusal=MessageRefused("too large", reason="too-large"), size_bytes=1)
    await database[outbox.NAME].update_many({"topic": topics.KB_EVENTS.name}, {"$set": {"sent_at": datetime.now(UTC)}})
    await database.command("profile", 2)
    assert await outbox.find_unsent(database, range(outbox.BUCKETS), limit=100) == []
    await database.command("profile", 0)
    [look] = await database["system.profile"].find({"ns": f"{database.name}.{outbox.NAME}", "op": "query"}).to_list()
    assert (look["keysExamined"], look["docsExamined"]) == (0, 0)


async def test_only_what_a_majority_has_is_read_to_be_published(database: Database, organization_id: str) -> None:
    await add(database, organization_id, "tag")
    await database.command("profile", 2)
    await outbox.find_unsent(database, range(outbox.BUCKETS), limit=1)
    await database.command("profile", 0)
    [look] = await database["system.profile"].find({"ns": f"{database.name}.{outbox.NAME}", "op": "query"}).to_list()
    assert look["command"]["readConcern"]["level"] == "majority"
