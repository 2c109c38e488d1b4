"""Restarts of the node and of the mongod behind it."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import SearchNodeProcess
from kb_local.search_node.change_feed import ChangeFeed, Namespace
from kb_local.search_node.refresh import Delays
from kb_local.search_node.server import serve
from tests.conformance.atlas_search.deployment import (
    Collection,
    connect,
    create_ready,
    entry,
    eventually,
    found_ids,
    model,
    own_collection,
    refused,
    vector_field,
    wait_ready,
)
from tests.conformance.atlas_search.node.wire import read_reply, request
from tests.waiting import until

LOOPBACK = "127.0.0.1"
QUERY = [1.0, 0.0, 0.0, 0.0]


def connect_through(uri: str, collection: Collection) -> Collection:
    client = connect(uri)
    return client[collection.database.name][collection.name]


async def test_after_a_restart_of_the_node_the_first_query_waits_for_the_index(mongod: Mongod) -> None:
    async with connect(mongod.uri) as direct, own_collection(direct) as collection:
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
            things = connect_through(node.uri, collection)
            await collection.insert_many([{"_id": number, "embedding": QUERY} for number in range(2000)])
            await create_ready(things, vector_field())
            before = await entry(things)
            await things.database.client.close()
        # The node is away; changes meanwhile are not lost.
        await collection.delete_many({"_id": {"$lt": 500}})
        await collection.insert_one({"_id": "new", "embedding": QUERY})
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
            things = connect_through(node.uri, collection)
            found = await found_ids(things, QUERY, limit=10_000)
            after = await entry(things)
            assert set(found) == {*range(500, 2000), "new"}
            assert before is not None
            assert after is not None
            assert (after["id"], after["status"], after["queryable"]) == (before["id"], "READY", True)
            await things.database.client.close()


async def test_an_index_that_was_never_built_is_not_waited_for_after_a_restart(mongod: Mongod) -> None:
    async with connect(mongod.uri) as direct, own_collection(direct) as collection:
        for _ in range(2):
            async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port), delays=Delays(build_s=60)) as node:
                things = connect_through(node.uri, collection)
                await things.create_search_index(model(vector_field()))
                assert await found_ids(things, QUERY) == []
                await things.database.client.close()


async def test_a_new_collection_of_the_same_name_has_no_index_even_before_the_drop_is_noticed(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node,
        connect(node.uri) as client,
        own_collection(client) as things,
    ):
        await create_ready(things, vector_field())
        before = await entry(things)
        feed, deliver, held = node._catalogue._feed, node._catalogue._feed._deliver, asyncio.Event()

        async def late(event: Any) -> None:
            await held.wait()
            await deliver(event)

        monkeypatch.setattr(feed, "_deliver", late)
        await things.drop()
        again = await things.database.create_collection(things.name)
        await again.insert_one({"_id": "new", "embedding": QUERY})
        await again.create_search_index(model(vector_field()))
        after = await entry(again)
        held.set()
        assert before is not None
        assert after is not None
        assert before["id"] != after["id"]
        await wait_ready(again)
        assert await found_ids(again, QUERY) == ["new"]


async def test_an_index_whose_collection_was_dropped_while_the_node_was_away_is_gone(mongod: Mongod) -> None:
    async with connect(mongod.uri) as direct, own_collection(direct) as collection:
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
            things = connect_through(node.uri, collection)
            await create_ready(things, vector_field())
            await things.database.client.close()
        await collection.drop()
        await collection.insert_one({"_id": "another collection", "embedding": QUERY})
        async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
            things = connect_through(node.uri, collection)
            assert await entry(things) is None
            assert await found_ids(things, QUERY) == []
            await things.database.client.close()


async def test_the_node_goes_on_when_mongod_is_restarted_behind_it(tmp_path: Path) -> None:
    mongod = Mongod(tmp_path / "data", port=free_port(), log=tmp_path / "mongod.log", cache_gb=0.25)
    await mongod.start()
    try:
        async with (
            serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node,
            connect(node.uri) as client,
        ):
            things = await client["restarts"].create_collection("things")
            await things.insert_one({"_id": "before", "embedding": QUERY})
            await create_ready(things, vector_field())
            await mongod.kill()
            await mongod.start()
            await things.insert_one({"_id": "after", "embedding": QUERY})

            async def both() -> bool:
                return sorted(await found_ids(things, QUERY)) == ["after", "before"]

            await eventually(both)
            await create_ready(things, vector_field(), name="another")
            assert sorted(await found_ids(things, QUERY, index="another")) == ["after", "before"]
    finally:
        await mongod.stop()


async def test_a_node_whose_change_stream_begins_late_loads_its_definitions(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = ChangeFeed._now

    async def later(feed: ChangeFeed) -> Any:
        # As long as it takes to write a marker, which the stream then does not begin with.
        await asyncio.sleep(0.3)
        return await now(feed)

    monkeypatch.setattr(ChangeFeed, "_now", later)
    async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node, asyncio.timeout(30):
        await node.wait_ready()


async def test_when_changes_may_have_been_missed_everything_is_built_again(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node,
        connect(node.uri) as client,
        own_collection(client) as things,
    ):
        await things.insert_one({"_id": "old", "embedding": QUERY})
        await create_ready(things, vector_field())
        catalogue = node._catalogue
        index = catalogue._table.named(Namespace(things.database.name, things.name), "vectors")
        assert index is not None
        assert index.main is not None
        # As if the events of two inserts had fallen out of the oplog.
        index.main.index.remove("old")
        feed, deliver = catalogue._feed, catalogue._feed._deliver

        async def lose_history(event: Any) -> None:
            monkeypatch.setattr(feed, "_deliver", deliver)
            raise OperationFailure("the resume point is no longer in the oplog", code=286)

        monkeypatch.setattr(feed, "_deliver", lose_history)
        await things.insert_one({"_id": "new", "embedding": QUERY})

        async def found_again() -> bool:
            return sorted(await found_ids(things, QUERY)) == ["new", "old"]

        await eventually(found_again)


async def test_sigterm_ends_the_process_at_once_and_cleanly(mongod: Mongod, tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    server = SearchNodeProcess(mongod=mongod.address, port=free_port(), log=log)
    await server.start()

    def said_ready() -> bool:
        return "search_node.ready" in log.read_text()

    # Left open over the end of the server.
    reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
    with closing(writer):
        writer.write(request({"ping": 1, "$db": "admin"}))
        assert (await read_reply(reader))[3]["ok"] == 1
        await until(said_ready)
        assert await server.stop() == 0
    text = log.read_text()
    assert text.index("authentication=none") < text.index("search_node.ready") < text.index("search_node.stopped")


async def test_a_command_waits_no_longer_than_its_maxtimems(mongod: Mongod) -> None:
    async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
        await node.wait_ready()
        node._catalogue.loaded.clear()
        async with connect(node.uri) as client:
            with refused(50, "operation exceeded time limit"):
                await (await client["a"]["b"].aggregate([{"$listSearchIndexes": {}}], maxTimeMS=50)).to_list()
