"""The arguments of $vectorSearch, its scores, and what is indexed."""

import math
from typing import Any

import pytest
from bson import Binary
from bson.binary import BinaryVectorDtype

from tests.conformance.atlas_search.deployment import (
    SEARCH_FAILED,
    Collection,
    create_ready,
    eventually,
    found_ids,
    model,
    refused,
    run,
    stage,
    vector_field,
)
from tests.conformance.atlas_search.library import DIMENSIONS, Library

SCORE = {"$project": {"score": {"$meta": "vectorSearchScore"}}}
ZERO = [0.0] * DIMENSIONS


async def scored(library: Library, **more: Any) -> list[tuple[Any, float]]:
    return [(hit["_id"], hit["score"]) for hit in await run(library.collection, stage(library.query, **more), SCORE)]


async def test_cosine_hits_come_best_first_with_their_scores(library: Library) -> None:
    hits = await scored(library)
    assert [found for found, _ in hits] == library.ids()
    assert dict(hits) == pytest.approx(library.cosine_scores(), abs=1e-5)


async def test_dot_product_scores_are_half_of_one_plus_the_product(library: Library) -> None:
    hits = await scored(library, path="dot")
    expected = {found: max(score, 0) for found, score in library.dot_scores().items()}
    assert dict(hits) == pytest.approx(expected, abs=1e-5)


async def test_euclidean_scores_are_one_over_one_plus_the_squared_distance(library: Library) -> None:
    assert dict(await scored(library, path="nested.point")) == pytest.approx(library.euclidean_scores(), abs=1e-5)


async def test_limit_gives_the_best_only(library: Library) -> None:
    assert [found for found, _ in await scored(library, limit=7)] == library.ids()[:7]


async def test_an_approximate_search_with_all_candidates_finds_the_best(library: Library) -> None:
    hits = await scored(library, exact=None, numCandidates=1000, limit=5)
    assert [found for found, _ in hits] == library.ids()[:5]


@pytest.mark.parametrize("form", ["integers", "float32"])
async def test_the_query_vector_may_be_any_numbers_or_bindata(library: Library, form: str) -> None:
    whole = [1, 2, 3, -4, 5, 6, -7, 8]
    query: Any = whole if form == "integers" else Binary.from_vector(whole, BinaryVectorDtype.FLOAT32)
    expected = await found_ids(library.collection, [float(value) for value in whole])
    assert await found_ids(library.collection, query) == expected


async def test_a_missing_or_misspelt_index_finds_nothing_and_is_no_error(library: Library) -> None:
    assert await found_ids(library.collection, library.query, index="vectros") == []
    assert await found_ids(library.collection.database["missing"], library.query) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"index": None}, '"index" is required'),
        ({"index": ""}, '"index" cannot be empty'),
        ({"path": None}, '"path" is required'),
        ({"limit": None}, '"limit" is required'),
        ({"limit": 0}, '"limit" must be positive'),
        ({"exact": None}, "numCandidates is required for approximate vector search"),
        ({"numCandidates": 10}, '"numCandidates" must be omitted when "exact" is set to true'),
        ({"exact": None, "numCandidates": 10_001}, '"numCandidates" must be within bounds [1..10000]'),
        ({"exact": None, "numCandidates": 0}, '"numCandidates" must be within bounds [1..10000]'),
        ({"exact": False, "numCandidates": 5, "limit": 6}, "limit should be less than or equal to numCandidates"),
        ({"queryVector": None}, "Exactly one and only one of query and queryVector can be present"),
        ({"queryVector": ["1"] * DIMENSIONS}, "Unsupported BsonValue type: STRING"),
        ({"queryVector": [1.0]}, "vector field is indexed with 8 dimensions but queried with 1"),
        ({"queryVector": ZERO}, "Cosine similarity cannot be calculated against a zero vector."),
        ({"queryVector": [*ZERO[:-1], math.nan]}, "contains a non-finite value (Infinity or NaN) at position [7]"),
        ({"path": "kind"}, "kind is not indexed as vector"),
        ({"path": "elsewhere"}, "elsewhere is not indexed as vector"),
    ],
)
async def test_a_query_that_breaks_a_rule_is_refused(library: Library, arguments: dict[str, Any], text: str) -> None:
    with refused(SEARCH_FAILED, text):
        await found_ids(library.collection, library.query, **arguments)


async def test_a_zero_query_vector_is_allowed_where_the_similarity_is_not_cosine(library: Library) -> None:
    assert len(await found_ids(library.collection, ZERO, path="dot")) == len(library.documents)


async def test_documents_whose_vector_can_not_be_indexed_are_skipped_silently(things: Collection) -> None:
    good = [1.0, 2.0, 3.0, 4.0]
    unusable: dict[str, Any] = {
        "missing": None,
        "short": [1.0, 2.0],
        "words": ["a", "b", "c", "d"],
        "zero": [0.0] * 4,
        "infinite": [math.inf, 0.0, 0.0, 0.0],
        "text": "vector",
        "in an array": [{"x": good}],
    }
    await things.insert_many([{"_id": name, "embedding": vector} for name, vector in unusable.items()])
    await things.insert_many(
        [
            {"_id": "list", "embedding": good},
            {"_id": "whole", "embedding": [1, 2, 3, 4]},
            {"_id": "bindata", "embedding": Binary.from_vector(good, BinaryVectorDtype.FLOAT32)},
        ]
    )
    await create_ready(things, vector_field())
    assert sorted(await found_ids(things, good)) == ["bindata", "list", "whole"]


async def test_a_zero_vector_is_indexed_where_the_similarity_is_not_cosine(things: Collection) -> None:
    await things.insert_one({"_id": "zero", "embedding": [0.0] * 4})
    await create_ready(things, vector_field(similarity="euclidean"))
    assert await found_ids(things, [0.0] * 4) == ["zero"]


async def test_inserts_updates_replacements_and_deletes_reach_the_index(things: Collection) -> None:
    query = [1.0, 0.0, 0.0, 0.0]
    await create_ready(things, vector_field())
    await things.insert_many([{"_id": number, "embedding": [1.0, number, 0.0, 0.0]} for number in range(5)])
    await things.update_one({"_id": 0}, {"$set": {"embedding": [-1.0, 0.0, 0.0, 0.0]}})
    await things.replace_one({"_id": 1}, {"embedding": [0.0, 1.0, 0.0, 0.0]})
    await things.delete_one({"_id": 2})
    await things.update_one({"_id": 3}, {"$unset": {"embedding": ""}})

    async def settled() -> bool:
        return await found_ids(things, query) == [4, 1, 0]

    await eventually(settled)


async def test_an_aborted_transaction_leaves_the_index_alone(things: Collection) -> None:
    await create_ready(things, vector_field())
    async with things.database.client.start_session() as session:
        await session.start_transaction()
        await things.insert_one({"_id": "aborted", "embedding": [1.0, 0.0, 0.0, 0.0]}, session=session)
        await session.abort_transaction()
    await things.insert_one({"_id": "later", "embedding": [1.0, 0.0, 0.0, 0.0]})

    async def indexed() -> bool:
        return "later" in await found_ids(things, [1.0, 0.0, 0.0, 0.0])

    await eventually(indexed)
    assert await found_ids(things, [1.0, 0.0, 0.0, 0.0]) == ["later"]


async def test_documents_that_are_gone_are_left_out_even_before_the_index_knows(things: Collection) -> None:
    await things.insert_many([{"_id": number, "embedding": [1.0, number, 0.0, 0.0]} for number in range(3)])
    await create_ready(things, vector_field())
    await things.delete_one({"_id": 0})
    assert 0 not in await found_ids(things, [1.0, 0.0, 0.0, 0.0])


async def test_an_index_is_not_searched_by_the_name_of_another_collection(things: Collection) -> None:
    other = await things.database.create_collection("others")
    await things.insert_one({"_id": "mine", "embedding": [1.0, 0.0, 0.0, 0.0]})
    await other.insert_one({"_id": "theirs", "embedding": [1.0, 0.0, 0.0, 0.0]})
    await create_ready(things, vector_field())
    await other.create_search_index(model(vector_field(), name="elsewhere"))
    assert await found_ids(things, [1.0, 0.0, 0.0, 0.0]) == ["mine"]
    assert await found_ids(things, [1.0, 0.0, 0.0, 0.0], index="elsewhere") == []
