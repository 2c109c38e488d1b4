"""Writes batches to a partition as they are, as no client library would."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

from kb_shared.kafka_connection.clients import producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.waiting import until

_TIMEOUT_MS = 10_000


class RawProducer:
    """Sends requests to produce. Brokers may refuse them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def write(self, topic: str, partition: int, batch: bytes | bytearray) -> int | None:
        """Write a batch; return its first offset, or None if the broker refuses it."""
        request = ProduceRequest(None, -1, _TIMEOUT_MS, [(topic, [(partition, bytes(batch))])])
        await self._client._wait_on_metadata(topic)
        leader = self._client.cluster.leader_for_partition(TopicPartition(topic, partition))
        try:
            response = await self._client.send(leader, request)
        except KafkaError:
            # The local broker closes the connection on some of them.
            return None
        [(_, [(_, error, offset, *_)])] = response.topics
        return offset if error == 0 else None

    async def write_surely(self, topic: str, partition: int, batch: bytes | bytearray) -> None:
        """Write a batch that is in order, also right after one at which the broker has closed the connection."""

        async def is_written() -> bool:
            return await self.write(topic, partition, batch) is not None

        await until(is_written, what="a batch in order to be written")


@asynccontextmanager
async def raw_producer(connection: KafkaConnection) -> AsyncIterator[RawProducer]:
    client = producer_client(connection)
    await client.start()
    try:
        yield RawProducer(client.client)
    finally:
        await client.stop()
