"""A revocation that was acknowledged holds, whichever member is the primary after it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pymongo.errors import PyMongoError

from kb_local.mongo_command import run_command
from kb_local.mongod import Mongod
from kb_local.ports import LOOPBACK
from kb_local.python_server import ModelServer
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from kb_search.bootstrap import create_app
from kb_search.settings import Settings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import api_keys, schema
from kb_shared.mongo import database as mongo
from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import PrimaryChanged, current_snapshot
from kb_shared.settings import CommonSettings
from tests.integration.search.conftest import ORGANIZATION, Searcher, key_for
from tests.integration.search.knowledge import Document, Knowledge, create
from tests.integration.search.lifespan import running
from tests.waiting import until


@pytest.fixture
async def database(nodes: SearchNodes, database_name: str) -> AsyncIterator[Database]:
    database = mongo.connect(CommonSettings(mongo_uri=nodes.uri, mongo_database=database_name))
    await schema.ensure(database)
    yield database
    await database.client.close()


@pytest.fixture
async def searcher(database: Database, model_server: ModelServer) -> AsyncIterator[Searcher]:
    settings = Settings(local_models_api_base=model_server.api_base)
    embedder, chat = create_embedder(database, settings, patience_s=0.2), create_chat(database, settings)
    app = create_app(settings, database=database, embedder=embedder, chat=chat)
    async with (
        running(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http,
    ):
        yield Searcher(http, await key_for(database, settings, ORGANIZATION))
    await embedder.close()
    await chat.close()


@pytest.mark.timeout(240)
async def test_a_key_revoked_just_before_its_primary_dies_is_refused_by_the_next_search(
    replica_set: ReplicaSet, database: Database, searcher: Searcher
) -> None:
    knowledge: Knowledge = await create(database, ORGANIZATION)
    await knowledge.index(Document(uuid4().hex, ["some text"]))
    # The key and the vector of the query are known to the service from here on.
    await searcher.search(knowledge)
    primary = await replica_set.primary()
    successor, last = await replica_set.secondaries()
    key_id = api_keys.key_id_of(searcher.key) or ""
    assert await api_keys.revoke(database, ORGANIZATION, key_id)
    await primary.kill()
    async with copying_nothing(last):
        await step_up(successor)
        assert await status(searcher, knowledge) in (401, 503)
    await until(lambda: is_refused(searcher, knowledge), what="the revoked key is refused")


@pytest.mark.timeout(240)
async def test_no_snapshot_of_a_new_primary_is_older_than_what_was_acknowledged_before_it(
    replica_set: ReplicaSet, database_name: str
) -> None:
    database = mongo.connect(CommonSettings(mongo_uri=replica_set.uri, mongo_database=database_name))
    async with database.client:
        primary = await replica_set.primary()
        successor, last = await replica_set.secondaries()
        await database["rows"].insert_one({"_id": 1})
        assert await read_in_current_snapshot(database) == [1]
        await database["rows"].insert_one({"_id": 2})
        await primary.kill()
        async with copying_nothing(last):
            await step_up(successor)
            # It has the row and may not know that it was acknowledged. A plain snapshot is without it then.
            with pytest.raises(PyMongoError):
                await read_in_current_snapshot(database)
        await until(lambda: reads_both(database), what="the snapshot of the new primary")


async def reads_both(database: Database) -> bool:
    try:
        rows = await read_in_current_snapshot(database)
    except PyMongoError:
        return False
    assert rows == [1, 2], "what was acknowledged is missing"
    return True


async def read_in_current_snapshot(database: Database) -> list[int]:
    while True:
        # As a search does, which begins anew.
        with suppress(PrimaryChanged):
            async with current_snapshot(database) as session:
                return [row["_id"] async for row in database["rows"].find(session=session).sort("_id")]


@asynccontextmanager
async def copying_nothing(member: Mongod) -> AsyncIterator[None]:
    """Let a member vote and confirm none of the primary's writes."""
    await ask(member, {"configureFailPoint": "stopReplProducer", "mode": "alwaysOn"})
    try:
        yield
    finally:
        await ask(member, {"configureFailPoint": "stopReplProducer", "mode": "off"})


async def ask(member: Mongod, command: dict[str, Any]) -> bool:
    return bool((await run_command(LOOPBACK, member.port, command, timeout_s=30))["ok"])


async def step_up(member: Mongod) -> None:
    async def elected() -> bool:
        return await ask(member, {"replSetStepUp": 1})

    await until(elected, what="the election")


async def status(searcher: Searcher, knowledge: Knowledge) -> int:
    return (await searcher.post(knowledge, {"query": "anything"})).status_code


async def is_refused(searcher: Searcher, knowledge: Knowledge) -> bool:
    return await status(searcher, knowledge) == 401
