"""What services do about topics when they start on a real cluster."""

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType
from structlog.testing import capture_logs

from kb_contracts.topics import Topic
from kb_shared.kafka.consumer import Consumer
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.topic_checks import TopicsUnfit
from kb_shared.kafka.topics import check_topics, ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.integration.kafka.support import Letters, Recorder, running
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.rights import Acl, grant
from tests.kafka_cluster.server_properties import Listener, password_of
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

STARTS = 25


def topic(name: str, partitions: int = 2) -> Topic:
    return Topic(name, partitions=partitions, retention=timedelta(hours=1))


TOPICS = (topic("events", 3), topic("requests", 6), topic("outcomes"))


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid4().hex[:12]}."


@pytest.fixture
def connection(brokers: KafkaBrokers) -> KafkaConnection:
    return KafkaConnection(brokers.bootstrap())


@pytest.fixture
def restricted(brokers: KafkaBrokers, tmp_path: Path) -> KafkaConnection:
    """The connection of a principal that may do nothing until it is granted."""
    (tmp_path / "password").write_text(password_of("operator"))
    return KafkaConnection(
        brokers.bootstrap(Listener.SASL_PLAINTEXT),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="operator",
        sasl_password_file=tmp_path / "password",
    )


async def test_every_first_start_finds_the_topics_it_has_created(connection: KafkaConnection, prefix: str) -> None:
    for number in range(STARTS):
        await asyncio.gather(*(ensure_topics(connection, TOPICS, prefix=f"{prefix}{number}.") for _ in range(2)))
        await check_topics(connection, TOPICS, prefix=f"{prefix}{number}.")


async def test_topics_are_created_with_three_replicas_of_which_two_must_have_a_message(
    brokers: KafkaBrokers, connection: KafkaConnection, prefix: str
) -> None:
    report = await ensure_topics(connection, TOPICS, prefix=prefix)
    assert report.risks == ()
    assert report.max_message_bytes == {each.name: each.max_message_bytes for each in TOPICS}
    metadata = await asyncio.to_thread(brokers.admin.list_topics, timeout=10)
    partitions = metadata.topics[f"{prefix}events"].partitions.values()
    assert [len(partition.replicas) for partition in partitions] == [3, 3, 3]
    # Of the topic itself: the brokers' own default is 2 here, and 1 elsewhere.
    assert await settings_of(brokers, f"{prefix}events") == {
        "retention.ms": "3600000",
        "max.message.bytes": str(TOPICS[0].max_message_bytes),
        "min.insync.replicas": "2",
    }


async def settings_of(brokers: KafkaBrokers, topic: str) -> dict[str, str]:
    """Return what is set for the topic itself, without what it has from the brokers."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = await asyncio.wrap_future(brokers.admin.describe_configs([resource])[resource])
    return {
        name: entry.value
        for name, entry in entries.items()
        if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


async def create(brokers: KafkaBrokers, topic: NewTopic) -> None:
    await asyncio.wrap_future(brokers.admin.create_topics([topic])[topic.topic])


async def test_a_topic_with_one_in_sync_replica_is_warned_of(
    brokers: KafkaBrokers, connection: KafkaConnection, prefix: str
) -> None:
    settings = {"min.insync.replicas": "1"}
    await create(brokers, NewTopic(f"{prefix}events", num_partitions=3, replication_factor=3, config=settings))
    (risk,) = (await ensure_topics(connection, TOPICS, prefix=prefix)).risks
    assert risk.topic == f"{prefix}events"
    assert "has min.insync.replicas=1: set 2" in risk.reason


async def test_a_topic_with_other_settings_is_warned_of_and_its_limit_reported(
    brokers: KafkaBrokers, connection: KafkaConnection, prefix: str
) -> None:
    settings = {"max.message.bytes": "5000"}
    await create(brokers, NewTopic(f"{prefix}events", num_partitions=5, replication_factor=1, config=settings))
    report = await ensure_topics(connection, TOPICS, prefix=prefix)
    assert {risk.topic for risk in report.risks} == {f"{prefix}events"}
    reasons = " ".join(risk.reason for risk in report.risks)
    assert "has 5 partitions instead of 3" in reasons
    assert "has one replica although there are 3 brokers" in reasons
    assert report.max_message_bytes["events"] == 5000


async def test_a_service_that_may_only_describe_topics_starts_when_all_exist(
    brokers: KafkaBrokers, connection: KafkaConnection, restricted: KafkaConnection, prefix: str
) -> None:
    await grant(brokers, [Acl("operator", AclOperation.DESCRIBE, ResourceType.TOPIC, prefix, prefixed=True)])
    with pytest.raises(TopicsUnfit) as refusal:
        await ensure_topics(restricted, TOPICS, prefix=prefix)
    assert {finding.topic for finding in refusal.value.findings} == {prefix + each.name for each in TOPICS}
    assert all("TopicAuthorizationFailedError" in finding.reason for finding in refusal.value.findings)
    await ensure_topics(connection, TOPICS, prefix=prefix)
    with capture_logs() as logs:
        report = await ensure_topics(restricted, TOPICS, prefix=prefix)
    assert report.max_message_bytes == {}
    assert {line["topic"] for line in logs if line["event"] == "topic.settings_unreadable"} == {
        prefix + each.name for each in TOPICS
    }


async def test_everything_is_handled_while_a_topic_gets_twice_as_many_partitions(
    brokers: KafkaBrokers, connection: KafkaConnection, prefix: str
) -> None:
    await ensure_topics(connection, [topic("events", 12)], prefix=prefix)
    name, handler, sent = f"{prefix}events", Recorder(), list[str]()
    consumer = Consumer(
        handler,
        Letters(),
        topics=[name],
        group_id=f"{prefix}group",
        connection=connection,
        session_timeout_ms=6_000,
        fetch_max_wait_ms=100,
    )

    async def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            values = [str(len(sent) + n) for n in range(20)]
            await producer.send_all([ProducerMessage(name, f"k/{value}".encode(), value.encode()) for value in values])
            sent.extend(values)

    async with Producer(connection, idempotence=True) as before, running(consumer):
        await send(before, 50)
        added = brokers.admin.create_partitions([NewPartitions(name, 24)])
        await asyncio.gather(asyncio.wrap_future(added[name]), send(before, 50))
        async with Producer(connection, idempotence=True) as after:  # it knows of the new partitions
            await asyncio.gather(send(before, 50), send(after, 50))
        await until(lambda: set(handler.handled) == set(sent), what="all records of all 24 partitions")
        # After each assignment it is counted again.
        await until(lambda: list(consumer.lag().values()) == [0] * 24, what="a lag of 0 in all 24 partitions")
    report = await check_topics(connection, [topic("events", 12)], prefix=prefix)
    assert any("has 24 partitions instead of 12" in risk.reason for risk in report.risks)
