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
from kb_local.python_server import ModelServerProcess
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import api_keys, index_queries, query_log
from kb_shared.mongo import database as mongo
from kb_shared.mongo.database import Database
from kb_shared.mongo.majority import PrimaryChanged, current_snapshot
from kb_shared.settings import CommonSettings
from tests.indexes import create_all_indexes
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.integration.search.lifespan import running
from tests.waiting import until

QUERY = "anything"


@pytest.fixture
async def database(nodes: SearchNodes, database_name: str) -> AsyncIterator[Database]:
    database = mongo.connect(CommonSettings(mongo_uri=nodes.uri, mongo_database=database_name))
    await create_all_indexes(database)
    yield database
    await database.client.close()


@pytest.fixture
async def searcher(database: Database, model_server: ModelServerProcess) -> AsyncIterator[SearchingCaller]:
    settings = SearchSettings(local_models_api_base=model_server.api_base)
    embedder, chat = create_embedder(database, settings, patience_s=0.2), create_chat(database, settings)
    app = create_app(settings, database=database, embedder=embedder, chat=chat)
    async with (
        running(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http,
    ):
        yield SearchingCaller(http, await key_for(database, settings, ORGANIZATION))
    await embedder.close()
    await chat.close()


@pytest.fixture
def _index_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have searches by vector find what the first one found.

    A mongot answers from its index whatever becomes of its member; our search node waits until a majority answers.
    """
    query_vector_index = index_queries.query_vector_index
    hits: dict[str, float] = {}

    async def found_first(*args: Any, **kwargs: Any) -> dict[str, float]:
        if not hits:
            hits.update(await query_vector_index(*args, **kwargs))
        return hits

    monkeypatch.setattr(index_queries, "query_vector_index", found_first)


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("_index_that_goes_on")
async def test_a_key_revoked_just_before_its_primary_dies_is_refused_by_the_next_search(
    replica_set: ReplicaSet, database: Database, searcher: SearchingCaller
) -> None:
    knowledge: Knowledge = await create(database, ORGANIZATION)
    await knowledge.index(DocumentToIndex(uuid4().hex, ["some text"]))
    # The key and the vector of the query are known to the service from here on.
    await searcher.search(knowledge, QUERY, mode="vector")
    primary = await replica_set.primary()
    successor, last = await secondaries(replica_set, primary)
    key_id = api_keys.parse_key_id(searcher.key) or ""
    # The last write of a search.
    await until(lambda: query_is_noted(database))
    async with stop_replication(last), withhold_commit_point(primary, successor=successor):
        assert await api_keys.revoke(database, ORGANIZATION, key_id=key_id)
        await primary.kill()
        await step_up(successor)
        # What a search would rest on without a look at the majority.
        assert not await is_revoked_in_a_plain_snapshot(database, key_id)
        assert await status(searcher, knowledge) == 503
    await until(lambda: is_refused(searcher, knowledge), what="the revoked key is refused")


@pytest.mark.timeout(240)
async def test_no_snapshot_of_a_new_primary_is_older_than_what_was_acknowledged_before_it(
    replica_set: ReplicaSet, database_name: str
) -> None:
    database = mongo.connect(CommonSettings(mongo_uri=replica_set.uri, mongo_database=database_name))
    async with database.client:
        primary = await replica_set.primary()
        successor, last = await secondaries(replica_set, primary)
        await database["rows"].insert_one({"_id": 1})
        assert await read_in_current_snapshot(database) == [1]
        async with stop_replication(last), withhold_commit_point(primary, successor=successor):
            await database["rows"].insert_one({"_id": 2})
            await primary.kill()
            await step_up(successor)
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
        # As a search does, which begins again.
        with suppress(PrimaryChanged):
            async with current_snapshot(database) as session:
                return [row["_id"] async for row in database["rows"].find(session=session).sort("_id")]


@asynccontextmanager
async def stop_replication(member: Mongod) -> AsyncIterator[None]:
    """Let a member vote and confirm none of the primary's writes."""
    await ask(member, {"configureFailPoint": "stopReplProducer", "mode": "alwaysOn"})
    try:
        yield
    finally:
        await ask(member, {"configureFailPoint": "stopReplProducer", "mode": "off"})


async def query_is_noted(database: Database) -> bool:
    return await database[query_log.NAME].count_documents({}) == 1


async def secondaries(replica_set: ReplicaSet, primary: Mongod) -> list[Mongod]:
    """Return both; the first copies from the primary, while the second may copy from the first."""
    first, second = await replica_set.secondaries()

    async def sources() -> list[str]:
        return [await source_of(member) for member in (first, second)]

    async def one_copies_from_the_primary() -> bool:
        return primary.address in await sources()

    await until(one_copies_from_the_primary)
    return [first, second] if (await sources())[0] == primary.address else [second, first]


async def source_of(member: Mongod) -> str:
    status = await run_command(LOOPBACK, member.port, command={"replSetGetStatus": 1}, timeout_s=30)
    return str(status["syncSourceHost"])


@asynccontextmanager
async def withhold_commit_point(primary: Mongod, *, successor: Mongod) -> AsyncIterator[None]:
    """Have the successor copy the next write and not hear that a majority has it, as if the primary died just then.

    It hears it with the next batch that it asks for, or with a heartbeat: the primary answers neither any more.
    """
    # With another write or commit on its way, the next batch would not be that of the next write.
    await until(lambda: knows_all_commits(successor, primary))
    next_batches = {
        "failCommands": ["getMore"],
        "namespace": "local.oplog.rs",
        "failInternalCommands": True,
        "blockConnection": True,
        "blockTimeMS": 60_000,
    }
    assert await ask(primary, {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": next_batches})
    heartbeats = {"configureFailPoint": "rsDelayHeartbeatResponse", "mode": "alwaysOn", "data": {"delay": 60}}
    assert await ask(primary, heartbeats)
    try:
        yield
    finally:
        # After a failure of the test it still runs, and would disturb those that follow.
        if primary.running:
            for name in ("failCommand", "rsDelayHeartbeatResponse"):
                await ask(primary, {"configureFailPoint": name, "mode": "off"})


async def knows_all_commits(secondary: Mongod, primary: Mongod) -> bool:
    return bool((await optimes_of(secondary))["lastCommittedOpTime"] == (await optimes_of(primary))["appliedOpTime"])


async def optimes_of(member: Mongod) -> dict[str, Any]:
    status = await run_command(LOOPBACK, member.port, command={"replSetGetStatus": 1}, timeout_s=30)
    optimes: dict[str, Any] = status["optimes"]
    return optimes


async def is_revoked_in_a_plain_snapshot(database: Database, key_id: str) -> bool:
    async with database.client.start_session(snapshot=True) as session:
        key = await database["api_keys"].find_one({"_id": key_id}, session=session)
    assert key is not None
    return key["revoked_at"] is not None


async def ask(member: Mongod, command: dict[str, Any]) -> bool:
    return bool((await run_command(LOOPBACK, member.port, command=command, timeout_s=30))["ok"])


async def step_up(member: Mongod) -> None:
    async def elected() -> bool:
        return await ask(member, {"replSetStepUp": 1})

    await until(elected, what="the election")


async def status(searcher: SearchingCaller, knowledge: Knowledge) -> int:
    return (await searcher.post(knowledge, {"query": QUERY, "mode": "vector"})).status_code


async def is_refused(searcher: SearchingCaller, knowledge: Knowledge) -> bool:
    return await status(searcher, knowledge) == 401
