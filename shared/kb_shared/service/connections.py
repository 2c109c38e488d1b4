"""Connects a service to MongoDB and Kafka, and waits until both are ready."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from kb_shared.kafka.bootstrap import create_producer, prepare_topics
from kb_shared.kafka.producer import Producer
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema_version
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import CollectionIndexes, create_indexes
from kb_shared.service import process
from kb_shared.settings import CommonSettings


@dataclass(frozen=True, slots=True)
class Connections:
    """Open clients of MongoDB and Kafka."""

    database: Database
    producer: Producer


@asynccontextmanager
async def connect(
    settings: CommonSettings,
    stop: asyncio.Event,
    *,
    note: Callable[[str], None],
    collections: Iterable[CollectionIndexes],
) -> AsyncIterator[Connections]:
    """Wait until both answer and all indexes and topics exist, then connect. Disconnects at the end.

    Args:
        settings: addresses and credentials.
        stop: ends the waiting.
        note: called with the reason for each retry.
        collections: those that the service uses, with their indexes.

    Raises:
        Stopped: `stop` was set before both were ready.
        VersionTooOld: this code can't work with the stored data.
    """
    async with AsyncExitStack() as open_things:
        database = mongo.connect(settings)
        open_things.push_async_callback(database.client.close)
        producer = create_producer(settings)

        async def prepare() -> None:
            with mongo_errors():
                await schema_version.check(database)
            await prepare_topics(settings)
            with mongo_errors():
                await create_indexes(database, collections)
            await producer.start()

        if not await process.retry_until_done(stop, prepare, note=note):
            raise process.Stopped
        open_things.push_async_callback(producer.stop)
        yield Connections(database, producer)
