"""What a service that consumes or commands needs before it can begin: MongoDB and Kafka, both ready."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from kb_shared import process
from kb_shared.kafka.bootstrap import create_producer, prepare_topics
from kb_shared.kafka.producer import Producer
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.settings import CommonSettings


@dataclass(frozen=True, slots=True)
class Connections:
    database: Database
    producer: Producer


@asynccontextmanager
async def connect(
    settings: CommonSettings, stop: asyncio.Event, *, note: Callable[[str], None]
) -> AsyncIterator[Connections]:
    """Connect once both answer and collections and topics are there; closed on leaving.

    Args:
        settings: where they are.
        stop: ends the waiting.
        note: called with what it waits for.

    Raises:
        Stopped: `stop` was set while it waited for them.
    """
    async with AsyncExitStack() as open_things:
        database = mongo.connect(settings)
        open_things.push_async_callback(database.client.close)
        producer = create_producer(settings)

        async def prepare() -> None:
            await prepare_topics(settings)
            with mongo_errors():
                await schema.ensure(database)
            await producer.start()

        if not await process.patiently(stop, prepare, note=note):
            raise process.Stopped
        open_things.push_async_callback(producer.stop)
        yield Connections(database, producer)
