"""Writes records to `document-events` as any producer may, and tells when the fan-out has finished them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiokafka import TopicPartition

from benchmarks.indexing.system import System
from kb_contracts.topics import DOCUMENT_EVENTS
from kb_indexer.bootstrap import GROUP_FAN_OUT
from kb_shared.kafka_connection.clients import consumer_client, producer_client
from kb_shared.mongo import index_jobs

RawHeaders: TypeAlias = Sequence[tuple[str, bytes | None]]


class RawRecords:
    """The only writer of document events while it is used."""

    def __init__(self, system: System, producer: Any) -> None:
        self._system = system
        self._producer = producer
        self._written = 0

    async def write(
        self, key: bytes | None, value: bytes | None, *, headers: RawHeaders = (), partition: int | None = None
    ) -> asyncio.Future[Any]:
        """Hand a record over; the future is its acknowledgement."""
        acknowledged: asyncio.Future[Any] = await self._producer.send(
            DOCUMENT_EVENTS.name, key=key, value=value, headers=list(headers), partition=partition
        )
        self._written += 1
        return acknowledged

    async def are_finished(self) -> bool:
        """Return whether the fan-out has committed all records, and no job is open."""
        open_jobs: int = await self._system.mongod[self._system.stack.database][index_jobs.NAME].count_documents({})
        return open_jobs == 0 and await self._count_committed() == self._written

    async def _count_committed(self) -> int:
        connection = self._system.stack.kafka_connection
        client = consumer_client(connection, group_id=GROUP_FAN_OUT, enable_auto_commit=False)
        await client.start()
        try:
            partitions = [TopicPartition(DOCUMENT_EVENTS.name, n) for n in range(DOCUMENT_EVENTS.partitions)]
            return sum([await client.committed(each) or 0 for each in partitions])
        finally:
            await client.stop()


@asynccontextmanager
async def raw_records(system: System) -> AsyncIterator[RawRecords]:
    producer = producer_client(system.stack.kafka_connection, linger_ms=5, max_request_size=2_000_000)
    await producer.start()
    try:
        yield RawRecords(system, producer)
    finally:
        await producer.stop()
