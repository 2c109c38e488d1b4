"""The node is as late as it is told to be."""

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pymongo.errors import OperationFailure

from kb_local.mongod import Mongod
from kb_local.search_node.refresh import Delays
from kb_local.search_node.server import SearchNode, serve
from tests.conformance.atlas_search.deployment import (
    SEARCH_FAILED,
    Collection,
    connect,
    create_ready,
    entry,
    eventually,
    filter_field,
    found_ids,
    model,
    own_collection,
    refused,
    vector_field,
    wait_ready,
)
from tests.conformance.atlas_search.node.pace import let_pass, no_build_begins, no_build_ends
from tests.waiting import until

QUERY = [1.0, 0.0, 0.0, 0.0]
BATCH = 40


@asynccontextmanager
async def things_behind(mongod: Mongod, delays: Delays) -> AsyncIterator[Collection]:
    """A collection seen through a node of this test's own."""
    async with serve(("127.0.0.1", 0), ("127.0.0.1", mongod.port), delays=delays) as node, things_of(node) as things:
        yield things


@asynccontextmanager
async def things_of(node: SearchNode) -> AsyncIterator[Collection]:
    async with connect(node.uri) as client, own_collection(client) as collection:
        yield collection


async def insert_in_transaction(things: Collection, batch: int) -> None:
    async with things.database.client.start_session() as session, await session.start_transaction():
        documents = [{"_id": f"{batch}:{number}", "embedding": QUERY} for number in range(BATCH)]
        await things.insert_many(documents, session=session)


async def test_a_reader_sees_half_of_a_committed_transaction(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(lag_s=0.1, refresh_s=0.05, seed=1)) as things:
        await create_ready(things, vector_field())
        batches = itertools.count()

        async def sees_partial_transaction() -> bool:
            """Look at one more transaction until all of it can be seen: a slow reader may miss its half."""
            batch, seen = next(batches), set[int]()
            await insert_in_transaction(things, batch)

            async def all_visible() -> bool:
                seen.add(len(await found_ids(things, QUERY)))
                return BATCH * (batch + 1) in seen

            await eventually(all_visible)
            return any(count % BATCH for count in seen)

        await until(sees_partial_transaction)


async def test_a_change_is_not_visible_before_the_lag_and_soon_after(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(lag_s=0.3, refresh_s=0.05)) as things:
        await create_ready(things, vector_field())
        began = time.time()
        await things.insert_many([{"_id": number, "embedding": QUERY} for number in range(20)])
        first_seen: list[float] = []

        async def all_visible() -> bool:
            found = len(await found_ids(things, QUERY))
            first_seen.extend([time.time()] if found else [])
            return found == 20

        await eventually(all_visible)
        # The commit is dated in whole milliseconds.
        assert first_seen[0] - began >= 0.299


async def test_a_removed_document_leaves_a_gap_in_the_hits_while_the_index_lags(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with things_behind(mongod, Delays(lag_s=3600, refresh_s=0.05)) as things:
        await things.insert_many([{"_id": number, "embedding": [1.0, number, 0.0, 0.0]} for number in range(5)])
        await create_ready(things, vector_field())
        await things.delete_many({"_id": {"$in": [0, 1]}})
        assert await found_ids(things, QUERY, limit=3) == [2]
        let_pass(3600, monkeypatch)

        async def caught_up() -> bool:
            return await found_ids(things, QUERY, limit=3) == [2, 3, 4]

        await eventually(caught_up)


async def test_two_indexes_of_a_collection_lag_independently(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(lag_s=0.1, refresh_s=0.05, seed=2)) as things:
        await create_ready(things, vector_field(), name="one")
        await create_ready(things, vector_field(), name="two")
        batches = itertools.count()

        async def indexes_differ() -> bool:
            """Look at one more transaction until both show all of it."""
            batch, differed = next(batches), False
            await insert_in_transaction(things, batch)

            async def both_visible() -> bool:
                nonlocal differed
                one, two = [len(await found_ids(things, QUERY, index=name)) for name in ("one", "two")]
                differed = differed or one != two
                return one == two == BATCH * (batch + 1)

            await eventually(both_visible)
            return differed

        await until(indexes_differ)


async def test_a_build_goes_through_its_states_and_answers_only_at_the_end(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve(("127.0.0.1", 0), ("127.0.0.1", mongod.port), delays=Delays(build_s=0.3)) as node,
        things_of(node) as things,
    ):

        async def state() -> str:
            found = await entry(things)
            assert found is not None
            assert found["queryable"] is (found["status"] == "READY")
            return str(found["status"])

        async def is_building() -> bool:
            return await state() == "BUILDING"

        await things.insert_one({"_id": 1, "embedding": QUERY})
        began = time.monotonic()
        async with no_build_ends(node, monkeypatch):
            async with no_build_begins(node):
                await things.create_search_index(model(vector_field()))
                assert await state() == "PENDING"
                assert await found_ids(things, QUERY) == [], "as an index that no node has noticed yet"
            await eventually(is_building)
            with refused(SEARCH_FAILED, "cannot query vector index vectors while in state INITIAL_SYNC"):
                await found_ids(things, QUERY)
        await wait_ready(things)
        assert time.monotonic() - began >= 0.3
        assert await found_ids(things, QUERY) == [1]


async def test_statuses_are_published_later_than_an_index_answers(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(status_s=3600)) as things:
        await things.insert_one({"_id": 1, "embedding": QUERY})
        await things.create_search_index(model(vector_field()))

        async def answers() -> bool:
            try:
                return await found_ids(things, QUERY) == [1]
            except OperationFailure:  # it is being built
                return False

        await eventually(answers)
        found = await entry(things)
        assert found is not None
        assert (found["status"], found["queryable"]) == ("PENDING", False)


async def test_another_definition_is_listed_at_once_and_its_end_at_the_next_publication(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(status_s=0.05)) as things:
        await create_ready(things, vector_field())
        await things.update_search_index("vectors", {"fields": [vector_field(), filter_field("kind")]})
        found = await entry(things)
        assert found is not None
        assert (found["queryable"], found["latestDefinitionVersion"]["version"]) == (True, 1)
        await wait_ready(things)


async def test_a_dropped_index_answers_for_as_long_as_the_index_lags(mongod: Mongod) -> None:
    async with things_behind(mongod, Delays(lag_s=1, refresh_s=0.05)) as things:
        await things.insert_one({"_id": 1, "embedding": QUERY})
        await create_ready(things, vector_field())
        await things.drop_search_index("vectors")
        assert await entry(things) is None

        async def silent() -> bool:
            return await found_ids(things, QUERY) == []

        await eventually(silent)


async def test_while_an_update_is_built_the_old_definition_answers(
    mongod: Mongod, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(("127.0.0.1", 0), ("127.0.0.1", mongod.port)) as node, things_of(node) as things:
        await things.insert_one({"_id": 1, "embedding": QUERY, "kind": "fish"})
        await create_ready(things, vector_field())
        async with no_build_ends(node, monkeypatch):
            await things.update_search_index("vectors", {"fields": [vector_field(), filter_field("kind")]})
            found = await entry(things)
            assert found is not None
            assert (found["status"], found["queryable"]) == ("BUILDING", True)
            assert found["latestDefinitionVersion"]["version"] == 1
            (detail,) = found["statusDetail"]
            assert detail["mainIndex"]["definitionVersion"]["version"] == 0
            assert detail["stagedIndex"]["definitionVersion"]["version"] == 1
            await things.insert_one({"_id": 2, "embedding": QUERY, "kind": "bird"})

            async def both() -> bool:
                return await found_ids(things, QUERY) == [1, 2]

            await eventually(both)
            with refused(SEARCH_FAILED, "Path 'kind' needs to be indexed as filter"):
                await found_ids(things, QUERY, filter={"kind": "fish"})
        await wait_ready(things)
        assert await found_ids(things, QUERY, filter={"kind": "bird"}) == [2]
