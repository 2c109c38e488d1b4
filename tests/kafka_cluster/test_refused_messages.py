"""Messages that brokers refuse for good. After a refusal, an idempotent producer has a gap in its sequence numbers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from bson import ObjectId

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.documents import TagsChanged
from kb_contracts.outcomes import KB_EVENTS, DocumentRejected
from kb_shared.kafka.producer import Producer
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.messaging import outbox_relay
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

ORGANIZATION = "acme"
LOWERED = "2000"
LARGE = "large"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def tags_of(tag_id: str) -> list[str]:
    return [LARGE, *(f"{number}-{'x' * 100}" for number in range(50))] if tag_id == LARGE else [tag_id]


@pytest.fixture
async def prefix(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch, database: Database) -> AsyncIterator[str]:
    """Return a prefix of topics to which only the test sends messages."""
    monkeypatch.setattr(outbox_relay, "_RENEW_S", 0.1)
    monkeypatch.setattr(outbox_relay, "_AFTER_FAILURE_S", 0.2)
    await database[outbox.NAME].create_indexes(outbox.INDEXES)
    prefix = f"test-{uuid4().hex[:12]}."
    wanted = (topics.DOCUMENT_EVENTS, topics.KB_EVENTS)
    await ensure_topics(KafkaConnection(brokers.bootstrap()), wanted, prefix=prefix, replication_factor=3)
    yield prefix
    await brokers.delete_topics_of(prefix)


async def add(database: Database, *tag_ids: str) -> None:
    """Leave an event of one document for each tag, in this order: all of one partition. That of LARGE has more tags."""

    async def work(session: MongoSession) -> None:
        await outbox.add(
            database,
            session,
            [
                outbox.NewMessage(
                    TagsChanged(organization_id=ORGANIZATION, document_id="d1", revision=seq, tag_ids=tags_of(tag_id)),
                    topic=topics.DOCUMENT_EVENTS.name,
                    key=f"{ORGANIZATION}/d1",
                    ordering="d1",
                    seq=seq,
                    source="/test",
                    traceparent=TRACEPARENT,
                )
                for seq, tag_id in enumerate(tag_ids)
            ],
        )

    await in_transaction(database, work)


async def add_without_key(database: Database) -> None:
    async def work(session: MongoSession) -> None:
        received = outbox.ReceivedRecord(topics.DOCUMENT_EVENTS.name, None, b"{}", [], TRACEPARENT)
        await outbox.add_records(database, session, [received], ordering="no key")

    await in_transaction(database, work)


@asynccontextmanager
async def relaying(database: Database, brokers: KafkaBrokers, prefix: str) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with Producer(KafkaConnection(brokers.bootstrap()), idempotence=True) as producer:
        relay = asyncio.create_task(OutboxRelay(database, producer, topic_prefix=prefix).run(stop))
        yield
        stop.set()
        await relay


@asynccontextmanager
async def reading(brokers: KafkaBrokers, topic: str) -> AsyncIterator[list[bytes]]:
    """Give the values in a topic, which grow as more come."""
    values: list[bytes] = []
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=brokers.bootstrap(), auto_offset_reset="earliest")
    await consumer.start()

    async def read() -> None:
        async for record in consumer:
            values.append(record.value)  # noqa: PERF401  # they are looked at while they come

    task = asyncio.create_task(read())
    try:
        yield values
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await consumer.stop()


def tags_in(values: list[bytes]) -> list[str]:
    return [decode(value, {TagsChanged.TYPE: TagsChanged})[1].tag_ids[0] for value in values]


async def nothing_waits(database: Database) -> bool:
    return await outbox.count_unsent(database) == 0


async def test_messages_over_a_lowered_limit_are_unsendable_others_arrive_and_a_raised_limit_lets_them_through(
    brokers: KafkaBrokers, database: Database, prefix: str
) -> None:
    topic = prefix + topics.DOCUMENT_EVENTS.name
    await brokers.set_topic(topic, {"max.message.bytes": LOWERED})
    await add(database, "before", LARGE, "after")
    async with (
        relaying(database, brokers, prefix),
        reading(brokers, topic) as events,
        reading(brokers, prefix + topics.KB_EVENTS.name) as outcomes,
    ):
        await until(lambda: nothing_waits(database), what="all but the refused message is sent")
        await until(lambda: "after" in tags_in(events))
        assert set(tags_in(events)) == {"before", "after"}
        await until(lambda: len(outcomes) > 0)
        rejected = decode(outcomes[0], KB_EVENTS)[1]
        assert isinstance(rejected, DocumentRejected)
        assert (rejected.document_id, rejected.reason) == ("d1", "too-large")
        [refused], _ = await outbox.find_unsendable_page(
            database, [ORGANIZATION], topic=None, reason=None, skip=0, limit=10
        )

        await brokers.set_topic(topic, {"max.message.bytes": "1048576"})
        await outbox.redrive(database, [ORGANIZATION], ObjectId(refused.message_id), by="me")
        await until(lambda: LARGE in tags_in(events))
        await until(lambda: nothing_waits(database))


async def test_a_record_that_breaks_a_rule_of_its_topic_is_set_aside_and_all_else_arrives(
    brokers: KafkaBrokers, database: Database, prefix: str
) -> None:
    topic = prefix + topics.DOCUMENT_EVENTS.name
    await brokers.set_topic(topic, {"cleanup.policy": "compact"})
    await add_without_key(database)
    await add(database, "first", "second")
    async with relaying(database, brokers, prefix), reading(brokers, topic) as events:
        await until(lambda: nothing_waits(database), what="all but the refused record is sent")
        await until(lambda: tags_in(events)[-1:] == ["second"])
    [refused], _ = await outbox.find_unsendable_page(database, [None], topic=None, reason=None, skip=0, limit=10)
    assert refused.reason == "invalid-record"
