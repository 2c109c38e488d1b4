"""createSearchIndexes, updateSearchIndex, dropSearchIndex and $listSearchIndexes."""

from typing import Any

import pytest
from pymongo.operations import SearchIndexModel

from tests.conformance.atlas_search.deployment import (
    BAD_DEFINITION,
    SEARCH_FAILED,
    Collection,
    create_ready,
    entry,
    eventually,
    filter_field,
    found_ids,
    model,
    refused,
    run,
    vector_field,
    wait_ready,
)

NOT_FOUND = 27


async def test_a_new_index_becomes_ready_and_queryable(things: Collection) -> None:
    await create_ready(things, vector_field(), filter_field("kind"))
    found = await entry(things)
    assert found is not None
    assert (found["name"], found["status"], found["queryable"]) == ("vectors", "READY", True)
    assert found["latestDefinitionVersion"]["version"] == 0
    assert [field["path"] for field in found["latestDefinition"]["fields"]] == ["embedding", "kind"]
    assert isinstance(found["id"], str)


async def test_creating_an_index_twice_with_the_same_definition_changes_nothing(things: Collection) -> None:
    await create_ready(things, vector_field())
    before = await entry(things)
    await things.create_search_index(model(vector_field()))
    after = await entry(things)
    assert before is not None
    assert after is not None
    assert before["id"] == after["id"]
    assert after["latestDefinitionVersion"]["version"] == 0


async def test_creating_an_index_again_with_another_definition_is_refused(things: Collection) -> None:
    await create_ready(things, vector_field())
    with refused(68, "already exists with a different definition. Drop it first if needed."):
        await things.create_search_index(model(vector_field(dimensions=5)))


async def test_an_index_on_a_collection_that_does_not_exist_is_refused(things: Collection) -> None:
    with refused(26):
        await things.database["missing"].create_search_index(model(vector_field()))


async def test_several_indexes_are_created_by_one_command(things: Collection) -> None:
    names = await things.create_search_indexes(
        [model(vector_field(), name="one"), model(vector_field("other"), name="two")]
    )
    assert names == ["one", "two"]
    await wait_ready(things, "one")
    await wait_ready(things, "two")


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "is required"),
        ({"fields": [vector_field(), filter_field("embedding")]}, "should have distinct paths"),
        ({"fields": [vector_field(dimensions=0)]}, "must be within bounds"),
        ({"fields": [vector_field(dimensions=8193)]}, "must be within bounds"),
        ({"fields": [vector_field(similarity="manhattan")]}, "must be one of"),
        ({"fields": [{"type": "vector", "path": "e", "numDimensions": 4}]}, "is required"),
        ({"fields": [vector_field(surprise=1)]}, 'unrecognized field "surprise"'),
        ({"fields": [vector_field(quantization="half")]}, "must be one of"),
        ({"fields": [vector_field(dimensions=12, quantization="binary")]}, ""),
        ({"fields": [vector_field(hnswOptions={"maxEdges": 8})]}, "must be within bounds"),
        ({"fields": [{"type": "number", "path": "n"}]}, "must be one of"),
    ],
)
async def test_a_definition_that_breaks_a_rule_is_refused(
    things: Collection, definition: dict[str, Any], text: str
) -> None:
    with refused(BAD_DEFINITION, text):
        await things.create_search_index(SearchIndexModel(definition=definition, name="bad", type="vectorSearch"))
    assert await entry(things, "bad") is None


async def test_quantization_and_hnsw_options_are_accepted(things: Collection) -> None:
    options = {"maxEdges": 32, "numEdgeCandidates": 200}
    await create_ready(things, vector_field(dimensions=8, quantization="scalar", hnswOptions=options))


async def test_an_update_is_served_by_the_new_definition_once_it_is_ready(things: Collection) -> None:
    await things.insert_one({"_id": 1, "embedding": [1.0, 0.0, 0.0, 0.0], "kind": "fish"})
    await create_ready(things, vector_field())
    with refused(SEARCH_FAILED, "Path 'kind' needs to be indexed as filter"):
        await found_ids(things, [1, 0, 0, 0], filter={"kind": "fish"})
    await things.update_search_index("vectors", {"fields": [vector_field(), filter_field("kind")]})

    async def updated() -> bool:
        found = await entry(things)
        assert found is not None
        assert found["queryable"]
        return (found["status"], found["latestDefinitionVersion"]["version"]) == ("READY", 1)

    await eventually(updated)
    assert await found_ids(things, [1, 0, 0, 0], filter={"kind": "fish"}) == [1]


async def test_an_update_that_breaks_a_rule_leaves_the_index_as_it_was(things: Collection) -> None:
    await create_ready(things, vector_field())
    with refused(BAD_DEFINITION):
        await things.update_search_index("vectors", {"fields": [vector_field(dimensions=0)]})
    found = await entry(things)
    assert found is not None
    assert (found["status"], found["latestDefinitionVersion"]["version"]) == ("READY", 0)


async def test_a_dropped_index_is_gone_from_the_list_and_finds_nothing(things: Collection) -> None:
    await things.insert_one({"_id": 1, "embedding": [1.0, 0.0, 0.0, 0.0]})
    await create_ready(things, vector_field())
    await things.drop_search_index("vectors")

    async def gone() -> bool:
        # It may answer for a second after it is gone from the list.
        return await entry(things) is None and await found_ids(things, [1, 0, 0, 0]) == []

    await eventually(gone)


async def test_an_update_to_an_equal_definition_builds_the_index_again(things: Collection) -> None:
    await create_ready(things, vector_field())
    await things.update_search_index("vectors", {"fields": [vector_field()]})

    async def rebuilt() -> bool:
        found = await entry(things)
        assert found is not None
        return (found["status"], found["latestDefinitionVersion"]["version"]) == ("READY", 1)

    await eventually(rebuilt)


async def test_updating_or_dropping_an_index_that_is_not_there_is_refused(things: Collection) -> None:
    with refused(NOT_FOUND):
        await things.update_search_index("missing", {"fields": [vector_field()]})
    with refused(NOT_FOUND):
        await things.database.command({"dropSearchIndex": things.name, "name": "missing"})


async def test_an_index_can_be_dropped_by_its_id(things: Collection) -> None:
    await create_ready(things, vector_field())
    found = await entry(things)
    assert found is not None
    await things.database.command({"dropSearchIndex": things.name, "id": found["id"]})

    async def gone() -> bool:
        return await entry(things) is None

    await eventually(gone)


async def test_the_list_can_be_filtered_and_shaped_by_further_stages(things: Collection) -> None:
    await things.create_search_indexes([model(vector_field(), name="one"), model(vector_field("other"), name="two")])
    rows = await run(
        things, {"$listSearchIndexes": {}}, {"$match": {"name": "two"}}, {"$project": {"name": 1, "_id": 0}}
    )
    assert rows == [{"name": "two"}]
    assert [one["name"] async for one in await things.list_search_indexes("one")] == ["one"]
    assert await run(things.database["missing"], {"$listSearchIndexes": {}}) == []


@pytest.mark.parametrize("how", ["drop", "drop_database", "rename"])
async def test_an_index_goes_with_its_collection(things: Collection, how: str) -> None:
    await things.insert_one({"_id": 1, "embedding": [1.0, 0.0, 0.0, 0.0]})
    await create_ready(things, vector_field())
    if how == "drop":
        await things.drop()
    elif how == "drop_database":
        await things.database.client.drop_database(things.database.name)
    else:
        await things.rename("renamed")

    async def gone() -> bool:
        return await entry(things) is None

    await eventually(gone)
    assert await found_ids(things, [1, 0, 0, 0]) == []


async def test_an_index_goes_when_another_collection_takes_the_name_of_its_own(things: Collection) -> None:
    await create_ready(things, vector_field())
    other = await things.database.create_collection("other")
    await other.insert_one({"_id": "other", "embedding": [1.0, 0.0, 0.0, 0.0]})
    await other.rename(things.name, dropTarget=True)

    async def gone() -> bool:
        return await entry(things) is None

    await eventually(gone)
    assert await found_ids(things, [1, 0, 0, 0]) == []


async def test_a_collection_created_again_at_once_does_not_inherit_the_index(things: Collection) -> None:
    await create_ready(things, vector_field())
    before = await entry(things)
    await things.drop()
    again = await things.database.create_collection(things.name)
    await again.insert_one({"_id": 2, "embedding": [1.0, 0.0, 0.0, 0.0]})
    await create_ready(again, vector_field())
    after = await entry(again)
    assert before is not None
    assert after is not None
    assert before["id"] != after["id"]
    assert await found_ids(again, [1, 0, 0, 0]) == [2]
