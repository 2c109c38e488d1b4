"""Search goes on whichever member is the primary."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.operations import SearchIndexModel

from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from tests.waiting import until

Collection = AsyncCollection[dict[str, Any]]
Client = AsyncMongoClient[dict[str, Any]]

INDEX = "vectors"
VECTOR = {"type": "vector", "path": "v", "numDimensions": 2, "similarity": "cosine"}
DEFINITION = {"fields": [VECTOR]}
OTHER_DEFINITION = {"fields": [VECTOR, {"type": "filter", "path": "color"}]}
SEARCH = [{"$vectorSearch": {"index": INDEX, "path": "v", "queryVector": [1.0, 0.0], "limit": 9, "exact": True}}]


@pytest.fixture
def collection(replicated_client: Client) -> Collection:
    return replicated_client[f"test_{uuid4().hex[:16]}"].things


async def build_index(collection: Collection, definition: Mapping[str, Any] = DEFINITION) -> None:
    await collection.create_search_index(SearchIndexModel(definition, name=INDEX, type="vectorSearch"))

    await until_built(collection)


async def until_built(collection: Collection) -> None:
    async def is_ready() -> bool:
        entries = [entry async for entry in await collection.list_search_indexes(INDEX)]
        return [entry["status"] for entry in entries] == ["READY"]

    await until(is_ready)


async def found(collection: Collection) -> set[Any]:
    return {document["_id"] async for document in await collection.aggregate(SEARCH)}


async def seconds_until_found(collection: Collection, ids: set[Any]) -> float:
    began = monotonic()

    async def as_wanted() -> bool:
        try:
            return await found(collection) == ids
        except PyMongoError as error:
            # A refusal other than for the want of a primary would be one of search.
            if isinstance(error, OperationFailure) and not error.has_error_label("RetryableError"):
                raise
            return False

    await until(as_wanted)
    return monotonic() - began


@asynccontextmanager
async def connect_to_each_node(nodes: SearchNodes, collection: Collection) -> AsyncIterator[list[Collection]]:
    """The same collection through each node by itself."""
    async with AsyncExitStack() as stack:
        yield [
            (await stack.enter_async_context(Client(node.uri)))[collection.database.name][collection.name]
            for node in nodes.nodes
        ]


async def definitions(collection: Collection) -> list[Any]:
    return [entry["latestDefinition"] async for entry in await collection.list_search_indexes()]


async def test_a_driver_that_discovers_the_replica_set_finds_its_nodes(
    nodes: SearchNodes, replica_set: ReplicaSet
) -> None:
    own = {("127.0.0.1", node.port) for node in nodes.nodes}
    async with AsyncMongoClient[dict[str, Any]](nodes.uri.split(",")[0] + "/?replicaSet=rs0") as client:
        await client.admin.command("ping")
        await until(lambda: client.nodes == own, what="all nodes are discovered")
        await replica_set.step_down()
        await client.admin.command("ping")
        assert client.nodes == own


async def test_searches_go_on_after_the_primary_was_killed(collection: Collection, replica_set: ReplicaSet) -> None:
    await collection.insert_many([{"_id": n, "v": [1.0, n]} for n in range(3)])
    await build_index(collection)
    await (await replica_set.primary()).kill()
    assert await seconds_until_found(collection, {0, 1, 2}) < 15
    await collection.insert_one({"_id": 3, "v": [1.0, 3.0]})
    await seconds_until_found(collection, {0, 1, 2, 3})


async def test_searches_go_on_within_five_seconds_of_a_step_down(
    collection: Collection, replica_set: ReplicaSet
) -> None:
    await collection.insert_many([{"_id": n, "v": [1.0, n]} for n in range(3)])
    await build_index(collection)
    for _ in range(3):
        await replica_set.step_down()
        assert await seconds_until_found(collection, {0, 1, 2}) < 5


async def test_an_index_that_one_node_has_made_changed_or_dropped_is_so_at_once_for_the_others(
    collection: Collection, nodes: SearchNodes
) -> None:
    await collection.insert_one({"_id": 1, "v": [1.0, 1.0], "color": "red"})
    async with connect_to_each_node(nodes, collection) as (first, second, third):
        await first.create_search_index(SearchIndexModel(DEFINITION, name=INDEX, type="vectorSearch"))
        assert await definitions(second) == [DEFINITION]
        await second.update_search_index(INDEX, OTHER_DEFINITION)
        assert await definitions(third) == await definitions(first) == [OTHER_DEFINITION]
        await build_index(third, OTHER_DEFINITION)
        for each in (first, second, third):
            # Each node builds its own.
            await until_built(each)
            assert await found(each) == {1}
        await third.drop_search_index(INDEX)
        for each in (first, second, third):
            assert await definitions(each) == []


async def test_two_nodes_that_are_asked_for_the_same_index_at_the_same_time_make_one(
    collection: Collection, nodes: SearchNodes
) -> None:
    await collection.insert_one({"_id": 1, "v": [1.0, 1.0]})
    async with connect_to_each_node(nodes, collection) as each:
        model = SearchIndexModel(DEFINITION, name=INDEX, type="vectorSearch")
        await asyncio.gather(*(one.create_search_index(model) for one in each))
        listed = [[entry["id"] async for entry in await one.list_search_indexes()] for one in each]
        assert listed[0] == listed[1] == listed[2]
        assert len(listed[0]) == 1


async def test_a_collection_that_was_dropped_and_made_again_has_its_new_index_only_on_every_node(
    collection: Collection, nodes: SearchNodes
) -> None:
    await collection.insert_one({"_id": "old", "v": [1.0, 1.0]})
    await build_index(collection)
    async with connect_to_each_node(nodes, collection) as each:
        for one in each:
            assert await found(one) == {"old"}
        await collection.drop()
        await collection.insert_one({"_id": "new", "v": [1.0, 1.0], "color": "red"})
        await build_index(collection, OTHER_DEFINITION)
        for one in each:
            assert await definitions(one) == [OTHER_DEFINITION]
            assert await found(one) == {"new"}


async def test_a_node_that_was_away_learns_what_others_have_done_meanwhile(
    collection: Collection, nodes: SearchNodes, replica_set: ReplicaSet
) -> None:
    dropped = collection.database.dropped
    await dropped.insert_one({"_id": 1, "v": [1.0, 1.0]})
    await build_index(dropped)
    # Not the one of the primary, without which nothing can be written through the nodes.
    [member, _] = await replica_set.secondaries()
    away = nodes.nodes[replica_set.members.index(member)]
    await away.kill()
    await collection.insert_one({"_id": 1, "v": [1.0, 1.0]})
    await build_index(collection)
    await dropped.drop_search_index(INDEX)
    await away.start()
    async with Client(away.uri) as client:
        database = client[collection.database.name]
        assert await found(database[collection.name]) == {1}
        assert await definitions(database.dropped) == []


async def test_nodes_start_while_a_member_is_away_and_serve_it_when_it_is_back(
    collection: Collection, nodes: SearchNodes, replica_set: ReplicaSet
) -> None:
    await collection.insert_one({"_id": 1, "v": [1.0, 1.0]})
    await build_index(collection)
    [away, _] = await replica_set.secondaries()
    await away.kill()
    await nodes.stop()
    await nodes.start()
    await seconds_until_found(collection, {1})
    await replica_set.heal()
    async with Client(nodes.nodes[replica_set.members.index(away)].uri) as client:
        assert await found(client[collection.database.name][collection.name]) == {1}


async def test_nodes_live_through_a_time_without_a_primary(
    collection: Collection, nodes: SearchNodes, replica_set: ReplicaSet
) -> None:
    await collection.insert_one({"_id": 1, "v": [1.0, 1.0]})
    await build_index(collection)
    killed = [await replica_set.primary(), (await replica_set.secondaries())[0]]
    for member in killed:
        await member.kill()
    async with Client(nodes.uri, serverSelectionTimeoutMS=3000) as client:
        same = client[collection.database.name][collection.name]
        with pytest.raises(PyMongoError):
            await found(same)
        with pytest.raises(PyMongoError):
            await same.create_search_index(SearchIndexModel(DEFINITION, name="other", type="vectorSearch"))
    pids = [node.pid for node in nodes.nodes]
    await replica_set.heal()
    await collection.insert_one({"_id": 2, "v": [1.0, 2.0]})
    await seconds_until_found(collection, {1, 2})
    assert [node.pid for node in nodes.nodes if node.running] == pids
