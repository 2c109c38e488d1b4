"""What MongoDB has acknowledged survives its primary."""

import asyncio
from pathlib import Path

import pytest

from kb_contracts.cloudevents import encode
from kb_contracts.documents import key_of
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.load import EventThrottle, load_of_documents, load_of_events
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.fan_out import FanOut
from kb_indexer.state_reader import StateReader
from kb_local.mongod import Mongod, is_writable
from kb_local.replica_set import ReplicaSet
from kb_shared.errors import TransientError
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import database as mongo
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import DocumentKey
from kb_shared.settings import CommonSettings
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import until
from tests.indexes import create_all_indexes
from tests.integration.indexer.support import RecordingProducer, record

ORGANIZATION = "org"
WITHIN_S = 120.0
EVENT = Upstream(ORGANIZATION).ocr("d", [paragraph("d")], tags=["a"])


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_an_event_that_was_handled_is_known_to_the_next_primary(tmp_path: Path) -> None:
    async with ReplicaSet(tmp_path, election_timeout_ms=5000) as nodes:
        first = await nodes.primary()
        database = mongo.connect(CommonSettings(mongo_uri=nodes.uri))
        try:
            await create_all_indexes(database)
            handled = await _handle_without_secondaries(nodes, first, database)
            await nodes.primary()
            if not handled:
                # The consumer would hand it over again.
                await until(lambda: _handles(database), within_s=WITHIN_S)
            document = await documents.find(database, DocumentKey(ORGANIZATION, "d"))
            assert document is not None, "its offset was committed, and the document is lost"
        finally:
            await database.client.close()


async def _handle_without_secondaries(nodes: ReplicaSet, primary: Mongod, database: Database) -> bool:
    """Handle the event on the primary alone; return whether it was handled before the primary died."""
    others = [member for member in nodes.members if member is not primary]
    # Not frozen: what the primary sends them would wait for them in their sockets.
    for member in others:
        await member.kill()
    handling = asyncio.create_task(_handles(database))

    async def acknowledged_or_deposed() -> bool:
        return handling.done() or not await is_writable(primary.port)

    await until(acknowledged_or_deposed, within_s=WITHIN_S)
    await primary.kill()
    for member in others:
        member.launch()
    return await handling


async def _handles(database: Database) -> bool:
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
        await fan_out.handle(record(encode(EVENT, source="/upstream"), key=key_of(EVENT)))
    except TransientError:
        return False
    return True
