import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiokafka import TopicPartition

from kb_contracts.topics import Topic
from kb_shared.kafka.consumer import Consumer
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.record import DeadLetters, Handler, OrderingKey, Record
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.backend import Backend
from tests.waiting import DEADLINE_S, until

SESSION_TIMEOUT_MS = 10_000
"""A member that a busy machine stops for a moment stays one: what is counted here counts on it."""
ON_KAFKA = not Backend.from_environment(os.environ).has_local_broker
"""True if the broker is Apache Kafka."""
BRIEF_SESSION: Mapping[str, Any] = {"session_timeout_ms": 6_000 if ON_KAFKA else 2_000}
"""For tests that lose nothing with a membership: a join takes Tansu half of the session."""
EVENTS = Topic("events", partitions=4, retention=timedelta(days=36_500))
"""Four partitions, as many as Tansu gives a topic that a client asks for before it is created again. Kafka deletes
records by their own timestamps, which some tests set to 1970."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One test's topic and consumer group."""

    bootstrap: str
    prefix: str
    on_kafka: bool = ON_KAFKA
    """Else the local broker, which has no idempotent producers and does not take it well when a member leaves."""

    @property
    def connection(self) -> KafkaConnection:
        return KafkaConnection(self.bootstrap)

    @property
    def topic(self) -> str:
        return self.prefix + EVENTS.name

    @property
    def group(self) -> str:
        return f"{self.prefix}group"

    async def create(self) -> None:
        await ensure_topics(self.connection, [EVENTS], prefix=self.prefix)

    async def publish(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send (key, value) pairs in order."""
        async with Producer(self.connection, idempotence=self.on_kafka) as producer:
            await producer.send_all(
                [ProducerMessage(self.topic, key.encode(), value.encode()) for key, value in messages]
            )

    def consumer(self, handler: Handler, dead_letters: DeadLetters, **options: Any) -> Consumer:
        defaults: dict[str, Any] = {
            "topics": [self.topic],
            "group_id": self.group,
            "connection": self.connection,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "fetch_max_wait_ms": 50,
            "leave_group": self.on_kafka,
        }
        return Consumer(handler, dead_letters, **(defaults | options))

    async def committed(self) -> int:
        """Count the records of all partitions that the group has committed."""
        return sum((await self.committed_offsets()).values())

    async def committed_offsets(self) -> dict[int, int]:
        """The group's offset of each partition; 0 where it has none."""
        async with self._connect_observer() as client:
            partitions = [TopicPartition(self.topic, n) for n in range(EVENTS.partitions)]
            return {each.partition: await client.committed(each) or 0 for each in partitions}

    async def until_committed(self, records: int) -> None:
        async def all_committed() -> bool:
            return await self.committed() == records

        await until(all_committed, what=f"{records} records committed", every_s=0.05)

    async def commit_without_membership(self, offsets: Mapping[int, int]) -> None:
        async with self._connect_observer() as client:
            client.assign([TopicPartition(self.topic, p) for p in offsets])
            await client.commit({TopicPartition(self.topic, p): offset for p, offset in offsets.items()})

    @asynccontextmanager
    async def _connect_observer(self) -> AsyncIterator[Any]:
        client = consumer_client(self.connection, group_id=self.group, enable_auto_commit=False)
        await client.start()
        try:
            yield client
        finally:
            await client.stop()


@asynccontextmanager
async def running(consumer: Consumer) -> AsyncIterator[None]:
    """Let the consumer run for the length of the block, then stop it as SIGTERM does."""
    stop = asyncio.Event()
    task = asyncio.create_task(consumer.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


@dataclass
class Recorder:
    """Handles records by noting their values; subclasses do worse."""

    handled: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def ordering_key(self, record: Record) -> OrderingKey:
        group, _, key = (record.key or b"").decode().partition("/")
        return OrderingKey(group, "", key)

    async def handle(self, record: Record) -> None:
        value = (record.value or b"").decode()
        self.tried.append(value)
        await self.effect(value)
        self.handled.append(value)

    async def effect(self, value: str) -> None:
        """Work on the record; subclasses override it."""


@dataclass
class Letters:
    """Dead letters kept in memory."""

    reasons: dict[str, str] = field(default_factory=dict)

    async def publish(self, record: Record, *, reason: str, detail: str) -> None:
        self.reasons[(record.value or b"").decode()] = reason
