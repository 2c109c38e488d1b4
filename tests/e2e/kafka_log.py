"""What stands in the topics, and how far the services have come with it."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition

from kb_contracts import topics
from kb_contracts.topics import Topic
from kb_indexer.bootstrap import GROUP_FAN_OUT, GROUP_SYNC
from kb_shared.kafka_connection.clients import consumer_client, producer_client
from kb_shared.kafka_connection.connection import KafkaConnection

CONSUMED = {
    GROUP_FAN_OUT: (topics.DOCUMENT_EVENTS, topics.KNOWLEDGE_DOCUMENT_EVENTS),
    GROUP_SYNC: (topics.INDEX_REQUESTS, topics.INDEX_BACKFILL),
}


@dataclass(frozen=True, slots=True)
class ConsumedMessage:
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class KafkaLog:
    """Reads topics without a consumer group, and writes records, also malformed ones."""

    connection: KafkaConnection
    prefix: str

    async def read(self, topic: Topic) -> list[ConsumedMessage]:
        """All messages of a topic, each partition's in order."""
        async with self._reader(None) as reader:
            partitions = await _filled(reader, self._partitions(topic))
            if not partitions:
                return []
            reader.assign(partitions)
            await reader.seek_to_beginning(*partitions)
            messages: list[ConsumedMessage] = []
            while not all([await _at_end(reader, partition) for partition in partitions]):
                for batch in (await reader.getmany(timeout_ms=100)).values():
                    messages += [_message(record) for record in batch]
        return messages

    async def send(
        self, topic: Topic, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Write a message that no publisher of ours would."""
        client = producer_client(self.connection, acks="all", max_request_size=4 * 1024 * 1024)
        await client.start()
        try:
            await client.send_and_wait(self.prefix + topic.name, key=key, value=value, headers=list(headers))
        finally:
            await client.stop()

    async def lag(self) -> int:
        """Messages that the indexers have not committed yet, on all topics they consume."""
        return sum([await self._lag_of(self.prefix + group, consumed) for group, consumed in CONSUMED.items()])

    async def _lag_of(self, group_id: str, consumed: Iterable[Topic]) -> int:
        async with self._reader(group_id) as reader:
            everything = [partition for topic in consumed for partition in self._partitions(topic)]
            partitions = await _filled(reader, everything)
            reader.assign(partitions)
            committed = {partition: await reader.committed(partition) or 0 for partition in partitions}
            for partition, offset in committed.items():
                reader.seek(partition, offset)
            while any(reader.highwater(partition) is None for partition in partitions):
                await reader.getmany(timeout_ms=20)
            return sum(reader.highwater(partition) - offset for partition, offset in committed.items())

    def _partitions(self, topic: Topic) -> list[Any]:
        return [TopicPartition(self.prefix + topic.name, n) for n in range(topic.partitions)]

    @asynccontextmanager
    async def _reader(self, group_id: str | None) -> AsyncIterator[Any]:
        client = consumer_client(
            self.connection,
            group_id=group_id,
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        await client.start()
        try:
            yield client
        finally:
            await client.stop()


async def _filled(reader: Any, partitions: Sequence[Any]) -> list[Any]:
    """Return the partitions that hold messages. Only a fetch tells how many: Tansu counts a batch as one here."""
    return [partition for partition, end in (await reader.end_offsets(partitions)).items() if end]


async def _at_end(reader: Any, partition: Any) -> bool:
    end = reader.highwater(partition)
    return end is not None and await reader.position(partition) >= end


def _message(record: Any) -> ConsumedMessage:
    return ConsumedMessage(record.key, record.value, {name: (value or b"").decode() for name, value in record.headers})
