"""Where $vectorSearch may stand, and what the stages after it see."""

from typing import Any

import pytest
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tests.conformance.atlas_search.deployment import (
    Collection,
    Document,
    create_ready,
    refused,
    run,
    stage,
    vector_field,
)
from tests.conformance.atlas_search.library import SIZE, Library

SCORE = {"$meta": "vectorSearchScore"}
TRANSACTIONS_REFUSED = 263
NO_SUCH_TRANSACTION = 251


def search(library: Library, **more: Any) -> Document:
    return stage(library.query, **({"limit": 5} | more))


async def test_the_score_is_seen_only_where_it_is_asked_for(library: Library) -> None:
    plain = await run(library.collection, search(library))
    assert plain == [next(one for one in library.documents if one["_id"] == hit) for hit in library.ids()[:5]]


SHAPES: dict[str, tuple[list[Document], list[str]]] = {
    "an including projection": ([{"$project": {"n": 1, "score": SCORE}}], ["_id", "n", "score"]),
    "a projection of the score alone": ([{"$project": {"score": SCORE}}], ["_id", "score"]),
    "a projection without the id": ([{"$project": {"_id": 0, "score": SCORE}}], ["score"]),
    "an added field": ([{"$project": {"n": 1}}, {"$addFields": {"score": SCORE}}], ["_id", "n", "score"]),
    "a field set, then others removed": (
        [{"$set": {"score": SCORE}}, {"$project": {"n": 1, "score": 1}}],
        ["_id", "n", "score"],
    ),
    "an arithmetic expression": (
        [{"$project": {"n": 1, "score": {"$subtract": [{"$multiply": [SCORE, 2]}, SCORE]}}}],
        ["_id", "n", "score"],
    ),
    "after a match, a sort and a limit": (
        [{"$match": {"n": {"$gte": 0}}}, {"$sort": {"s": SCORE}}, {"$limit": 5}, {"$project": {"score": SCORE}}],
        ["_id", "score"],
    ),
    "after another root": ([{"$replaceWith": {"n": "$n"}}, {"$set": {"score": SCORE}}], ["n", "score"]),
    "beside the whole document": (
        [{"$project": {"_id": 0, "whole": {"$objectToArray": "$$ROOT"}, "score": SCORE}}, {"$unset": "whole"}],
        ["score"],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_score_can_be_read_in(library: Library, shape: str) -> None:
    stages, fields = SHAPES[shape]
    hits = await run(library.collection, search(library), *stages)
    assert [sorted(hit) for hit in hits] == [fields] * 5
    scores = library.cosine_scores()
    assert [hit["score"] for hit in hits] == pytest.approx([scores[one] for one in library.ids()[:5]], abs=1e-5)


async def test_an_excluding_projection_may_add_the_score(library: Library) -> None:
    (hit,) = await run(library.collection, search(library, limit=1), {"$project": {"embedding": 0, "score": SCORE}})
    whole = next(one for one in library.documents if one["_id"] == hit["_id"])
    assert sorted(hit) == sorted([*(set(whole) - {"embedding"}), "score"])


async def test_nothing_of_the_score_remains_in_the_whole_document(library: Library) -> None:
    (hit,) = await run(library.collection, search(library, limit=1), {"$project": {"whole": "$$ROOT", "score": SCORE}})
    assert hit["whole"] == next(one for one in library.documents if one["_id"] == hit["_id"])


async def test_hits_can_be_grouped_by_their_score(library: Library) -> None:
    (group,) = await run(library.collection, search(library), {"$group": {"_id": None, "best": {"$max": SCORE}}})
    assert group == {"_id": None, "best": pytest.approx(max(library.cosine_scores().values()), abs=1e-5)}


async def test_after_a_group_the_score_is_gone(library: Library) -> None:
    with pytest.raises(OperationFailure):
        await run(library.collection, search(library), {"$group": {"_id": "$n"}}, {"$project": {"score": SCORE}})


async def test_a_facet_after_the_search_sees_the_hits(library: Library) -> None:
    facets = {"best": [{"$limit": 1}, {"$project": {"score": SCORE}}], "all": [{"$count": "hits"}]}
    (answer,) = await run(library.collection, search(library), {"$facet": facets})
    assert answer["all"] == [{"hits": 5}]
    assert sorted(answer["best"][0]) == ["_id", "score"]


async def test_hits_can_be_joined_with_another_collection(library: Library) -> None:
    join = {"from": library.collection.name, "localField": "n", "foreignField": "n", "as": "same"}
    hits = await run(library.collection, search(library), {"$lookup": join}, {"$set": {"score": SCORE}})
    assert all(hit["same"][0]["_id"] == hit["_id"] and "score" in hit for hit in hits)


async def test_a_search_may_begin_the_pipeline_of_a_union(library: Library) -> None:
    nested = [search(library, limit=2, filter={"kind": "bird"}), {"$set": {"score": SCORE}}]
    union = {"$unionWith": {"coll": library.collection.name, "pipeline": nested}}
    hits = await run(library.collection, search(library, limit=3), {"$set": {"score": SCORE}}, union)
    birds = library.ids(lambda one: one["kind"] == "bird")
    assert [hit["_id"] for hit in hits] == [*library.ids()[:3], *birds[:2]]
    assert all("score" in hit for hit in hits)


async def test_a_long_answer_comes_in_batches(library: Library) -> None:
    cursor = await library.collection.aggregate([stage(library.query)], batchSize=7)
    assert [hit["_id"] async for hit in cursor] == library.ids()
    assert len(library.ids()) == SIZE


async def test_a_search_that_is_not_the_first_stage_is_refused(library: Library) -> None:
    with refused(40602, "$vectorSearch is only valid as the first stage in a pipeline"):
        await run(library.collection, {"$match": {}}, search(library))


@pytest.mark.parametrize("owner", ["facet", "lookup"])
async def test_a_search_inside_another_stage_is_refused(library: Library, owner: str) -> None:
    within: dict[str, Document] = {
        "facet": {"$facet": {"hits": [search(library)]}},
        "lookup": {"$lookup": {"from": library.collection.name, "pipeline": [search(library)], "as": "hits"}},
    }
    with refused({"facet": 40600, "lookup": 51047}[owner], "not allowed"):
        await run(library.collection, within[owner])


@pytest.mark.parametrize("level", ["majority", "snapshot", "linearizable"])
async def test_a_read_concern_other_than_local_is_refused(library: Library, level: str) -> None:
    collection = library.collection.with_options(read_concern=ReadConcern(level))
    with pytest.raises(OperationFailure):
        await run(collection, search(library))


async def test_a_local_read_concern_and_a_causal_session_are_fine(library: Library) -> None:
    collection = library.collection.with_options(read_concern=ReadConcern("local"))
    async with library.collection.database.client.start_session() as session:
        await collection.find_one({}, session=session)
        assert len(await run(collection, search(library), session=session)) == 5


async def test_a_snapshot_session_is_refused(library: Library) -> None:
    async with library.collection.database.client.start_session(snapshot=True) as session:
        with pytest.raises(OperationFailure):
            await run(library.collection, search(library), session=session)


@pytest.mark.parametrize("place", ["first", "later"])
async def test_a_search_in_a_transaction_is_refused_and_aborts_it(things: Collection, place: str) -> None:
    await create_ready(things, vector_field())
    async with things.database.client.start_session() as session:
        await session.start_transaction()
        if place == "later":
            await things.insert_one({"_id": "never"}, session=session)
        with refused(TRANSACTIONS_REFUSED, "$vectorSearch cannot run within a multi-document transaction"):
            await run(things, stage([1.0, 0.0, 0.0, 0.0]), session=session)
        with refused(NO_SUCH_TRANSACTION):
            await session.commit_transaction()
    assert await things.find_one({"_id": "never"}) is None


async def test_a_text_search_is_left_alone(things: Collection) -> None:
    await things.insert_one({"_id": 1, "title": "apple pie"})
    await things.create_index([("title", "text")])
    assert await run(things, {"$match": {"$text": {"$search": "apple"}}}, {"$project": {"_id": 1}}) == [{"_id": 1}]
