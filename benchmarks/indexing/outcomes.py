"""Waits for outcome messages of the indexer on Kafka, which puts no load on MongoDB."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, DocumentIndexed
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.kafka_connection.connection import KafkaConnection


class Outcomes:
    """Reads `kb-events` from their beginning, as an upstream service would."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def until_indexed(self, document_ids: Collection[str], *, revision: int) -> list[str]:
        """Wait until all of them are indexed in `revision`; returns their ids in that order."""
        return [document_id async for document_id in self.iterate_indexed(document_ids, revision=revision)]

    async def iterate_indexed(self, document_ids: Collection[str], *, revision: int) -> AsyncIterator[str]:
        """Yield the id of each of them when it is indexed in `revision`."""
        missing = set(document_ids)
        while missing:
            _, outcome = decode((await self._consumer.getone()).value, KB_EVENTS)
            if not isinstance(outcome, DocumentIndexed) or outcome.revision != revision:
                continue
            if outcome.document_id in missing:
                missing.remove(outcome.document_id)
                yield outcome.document_id


@asynccontextmanager
async def outcomes_of(connection: KafkaConnection) -> AsyncIterator[Outcomes]:
    consumer = consumer_client(
        connection,
        topics.KB_EVENTS.name,
        auto_offset_reset="earliest",
        # The local broker answers a waiting fetch late by up to this: time that nothing but the measuring takes.
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    try:
        yield Outcomes(consumer)
    finally:
        await consumer.stop()
