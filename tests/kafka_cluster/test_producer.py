"""A producer goes on by itself after what breaks a client of the client library."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import TopicPartition
from structlog.testing import capture_logs

from kb_contracts.topics import Topic
from kb_shared.errors import TransientError
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

pytestmark = pytest.mark.kafka_cluster

KEYS = 12
REQUEST_TIMEOUT_MS = 3_000
PRODUCER_EXPIRES_MS = 1_000


@pytest.fixture
def connection(brokers: KafkaBrokers) -> KafkaConnection:
    return KafkaConnection(brokers.bootstrap())


@dataclass
class Upstream:
    """Sends numbered messages of twelve keys; each number again until it is acknowledged, as all our senders do."""

    producer: Producer
    topic: str
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, range(KEYS)), 0))
    errors: set[str] = field(default_factory=set)

    async def send(self, key: str) -> None:
        while True:
            number = self.acknowledged[key] + 1
            try:
                await self.producer.send(self.topic, key.encode(), value=str(number).encode())
            except TransientError as error:
                self.errors.add(str(error))
            else:
                self.acknowledged[key] = number
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.send(key)) for key in self.acknowledged]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until_all_go_on(self) -> None:
        """Wait until three more messages of each key are acknowledged."""
        goals = {key: number + 3 for key, number in self.acknowledged.items()}
        await until(lambda: all(self.acknowledged[key] >= goal for key, goal in goals.items()), what="all keys go on")


async def written(connection: KafkaConnection, topic: Topic) -> dict[str, list[int]]:
    """All numbers of each key, in order."""
    reader = consumer_client(connection, enable_auto_commit=False, auto_offset_reset="earliest")
    await reader.start()
    numbers: dict[str, list[int]] = defaultdict(list)
    try:
        partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        reader.assign(partitions)
        ends: dict[Any, int] = await reader.end_offsets(partitions)
        await reader.seek_to_beginning(*partitions)
        while any([await reader.position(partition) < end for partition, end in ends.items()]):
            for records in (await reader.getmany(timeout_ms=500)).values():
                for record in records:
                    numbers[record.key.decode()].append(int(record.value))
    finally:
        await reader.stop()
    return numbers


def keep_last_occurrences(numbers: list[int]) -> list[int]:
    """Each number once, where it comes last."""
    return list(reversed(dict.fromkeys(reversed(numbers))))


async def test_every_key_goes_on_after_the_only_broker_of_its_partition_was_away(
    brokers: KafkaBrokers, connection: KafkaConnection
) -> None:
    topic = Topic(f"test-{uuid4().hex[:12]}", partitions=6, retention=timedelta(hours=1))
    await ensure_topics(connection, [topic], replication_factor=1)
    with capture_logs() as logs:
        async with Producer(connection, idempotence=True, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer:
            upstream = Upstream(producer, topic.name)
            async with upstream.sending():
                await upstream.until_all_go_on()
                away = await brokers.leader_of(topic.name)
                await away.kill()
                await until(lambda: any("LeaderNotAvailable" in error for error in upstream.errors))
                await away.start()
                await upstream.until_all_go_on()
    assert any(line["event"] == "producer.replaced" for line in logs)
    for key, numbers in (await written(connection, topic)).items():
        in_order = keep_last_occurrences(numbers)
        assert in_order == sorted(in_order), key
        assert in_order[: upstream.acknowledged[key]] == list(range(1, upstream.acknowledged[key] + 1))


async def test_a_producer_that_was_silent_until_brokers_forgot_it_goes_on(
    brokers: KafkaBrokers, connection: KafkaConnection
) -> None:
    for broker in brokers.brokers:
        await brokers.restart(
            broker,
            producer_id_expiration_ms=str(PRODUCER_EXPIRES_MS),
            producer_id_expiration_check_interval_ms="200",
        )
    topic = Topic(f"test-{uuid4().hex[:12]}", partitions=2, retention=timedelta(hours=1))
    await ensure_topics(connection, [topic])
    async with Producer(connection, idempotence=True) as producer:
        for number in range(1, 4):
            await producer.send_all(
                [ProducerMessage(topic.name, str(key).encode(), str(number).encode()) for key in range(KEYS)]
            )
            await asyncio.sleep(3 * PRODUCER_EXPIRES_MS / 1000)  # it is the time itself that counts
    assert await written(connection, topic) == {str(key): [1, 2, 3] for key in range(KEYS)}


async def test_a_producer_ends_in_time_when_all_brokers_are_frozen(
    brokers: KafkaBrokers, connection: KafkaConnection
) -> None:
    topic = Topic(f"test-{uuid4().hex[:12]}", partitions=6, retention=timedelta(hours=1))
    await ensure_topics(connection, [topic])
    producer = Producer(connection, idempotence=True)
    await producer.start()
    upstream = Upstream(producer, topic.name)
    async with upstream.sending():
        await upstream.until_all_go_on()
        await asyncio.gather(*(broker.pause() for broker in brokers.brokers))
        calls = [
            asyncio.create_task(producer.send(topic.name, str(key).encode(), value=b"0" * 500_000)) for key in range(9)
        ]
        await asyncio.sleep(0)
        began = time.monotonic()
        await producer.stop()
        assert time.monotonic() - began < 10
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, TransientError) for outcome in outcomes)
