"""An event counts as handled only once a majority has what it did: its offset is committed then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kb_contracts.cloudevents import encode
from kb_contracts.documents import DocumentEvent, key_of
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.load import EventThrottle, load_of_documents, load_of_events
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.fan_out import FanOut
from kb_indexer.state_reader import StateReader
from kb_local.mongod import Mongod
from kb_local.replica_set import ReplicaSet
from kb_shared.errors import TransientError
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import database as mongo
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey
from kb_shared.settings import CommonSettings
from tests.chaos.workload import Upstream, paragraph
from tests.indexes import create_all_indexes
from tests.integration.indexer.support import RecordingProducer, record
from tests.waiting import until

ORGANIZATION = "org"
REVISION = 1
UPSTREAM = Upstream(ORGANIZATION)
BEGINNING = UPSTREAM.ocr("d", [paragraph("d")], tags=[], revision=REVISION)
# Of all events it writes the fewest rows: nothing but the projection waits for the majority.
EVENT = UPSTREAM.deleted("d", revision=REVISION + 1)


@pytest.mark.timeout(180)
async def test_an_event_that_only_an_isolated_primary_has_is_not_handled_when_it_is_delivered_again(
    replica_set: ReplicaSet, database_name: str
) -> None:
    async with connected(replica_set.uri, database_name) as first, connected(replica_set.uri, database_name) as second:
        await create_all_indexes(first)
        assert await handles(first, BEGINNING)
        primary = await isolated_primary(replica_set)
        delivery = asyncio.create_task(handles(first))
        async with connected(f"mongodb://{primary.address}/?directConnection=true", database_name) as on_primary:
            await until(lambda: knows(on_primary), what="the event on the isolated primary")
        assert not delivery.done()
        handled = await handles(second)
        await kill_primary(replica_set, primary)
        handled = await delivery or handled
        assert await knows(second) or not handled, "its offset was committed, and the document is lost"
        # The consumer hands it over again.
        await until(lambda: handles(second))
        assert await knows(second)


@pytest.mark.timeout(180)
async def test_a_write_timeout_in_the_uri_acknowledges_nothing(replica_set: ReplicaSet, database_name: str) -> None:
    async with connected(f"{replica_set.uri}&wtimeoutMS=1000", database_name) as database:
        await create_all_indexes(database)
        assert await handles(database, BEGINNING)
        primary = await isolated_primary(replica_set)
        handled = await handles(database)
        await kill_primary(replica_set, primary)
        assert await knows(database) or not handled, "its offset was committed, and the document is lost"
        await until(lambda: handles(database))
        assert await knows(database)


async def isolated_primary(replica_set: ReplicaSet) -> Mongod:
    """Kill the secondaries: later writes of the primary are not replicated. It steps down within ten seconds."""
    primary = await replica_set.primary()
    # Not frozen: what the primary sends them would wait for them in their sockets.
    for secondary in await replica_set.secondaries():
        await secondary.kill()
    return primary


async def kill_primary(replica_set: ReplicaSet, primary: Mongod) -> None:
    """Kill the primary and have the others go on without it."""
    await primary.kill()
    for member in replica_set.members:
        if member is not primary:
            member.launch()
    await replica_set.primary()


@asynccontextmanager
async def connected(uri: str, database_name: str) -> AsyncIterator[Database]:
    database = mongo.connect(CommonSettings(mongo_uri=uri, mongo_database=database_name))
    try:
        yield database
    finally:
        await database.client.close()


async def handles(database: Database, event: DocumentEvent = EVENT) -> bool:
    """Handle the event and say whether it counts as handled."""
    requests = IndexRequests(database, RecordingProducer(), topic_prefix="", source="/test")
    fan_out = FanOut(
        database,
        requests,
        state_reader=StateReader(database),
        quarantine=SuspectQuarantine(),
        backlog=Backlog(database),
        load=EventThrottle(events=load_of_events(most=32), documents=load_of_documents(most=32, lifetime_s=60)),
    )
    try:
        await fan_out.handle(record(encode(event, source="/upstream"), key=key_of(event)))
    except TransientError:
        return False
    return True


async def knows(database: Database) -> bool:
    document = await documents.find(database, DocumentKey(ORGANIZATION, "d"))
    return document is not None and not document.alive
