"""Where $search and $searchMeta may stand, and what the stages after them see."""

import pytest
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tests.conformance.atlas_search.deployment import (
    Collection,
    Document,
    create_ready,
    create_ready_texts,
    eventually,
    mappings,
    refused,
    run,
    search_stage,
    stage,
    text_model,
    vector_field,
    wait_ready,
)
from tests.conformance.atlas_search.texts import TEXTS, documents

SCORE = {"$meta": "searchScore"}
QUICK = {"text": {"query": "quick", "path": "text"}}
EVERYTHING = {"exists": {"path": "text"}}
TRANSACTIONS_REFUSED = 263
NO_SUCH_TRANSACTION = 251


async def test_the_score_of_a_text_search_is_seen_only_where_it_is_asked_for(texts: Collection) -> None:
    (plain,) = await run(texts, search_stage({"text": {"query": "lazy", "path": "text"}}))
    assert sorted(plain) == sorted(documents()[0])
    (projected,) = await run(
        texts, search_stage({"text": {"query": "lazy", "path": "text"}}), {"$project": {"n": 1, "score": SCORE}}
    )
    assert sorted(projected) == ["_id", "n", "score"]


async def test_hits_can_be_limited_skipped_and_matched(texts: Collection) -> None:
    every = [hit["_id"] for hit in await run(texts, search_stage(QUICK))]
    assert len(every) == 3
    assert [hit["_id"] for hit in await run(texts, search_stage(QUICK), {"$limit": 2})] == every[:2]
    skipped = await run(texts, search_stage(QUICK), {"$set": {"a": 1}}, {"$skip": 1}, {"$limit": 1})
    assert [hit["_id"] for hit in skipped] == every[1:2]
    matched = await run(texts, search_stage(QUICK), {"$match": {"_id": every[2]}}, {"$limit": 1})
    assert [hit["_id"] for hit in matched] == every[2:]


async def test_a_match_before_a_limit_sees_all_hits(things: Collection) -> None:
    await things.insert_many([{"_id": number, "s": "word"} for number in range(200)])
    await create_ready_texts(things, mappings({"s": {"type": "string"}}))
    last = [search_stage({"text": {"query": "word", "path": "s"}}), {"$match": {"_id": 199}}, {"$limit": 1}]

    async def found() -> bool:
        return [hit["_id"] for hit in await run(things, *last)] == [199]

    await eventually(found)


async def test_hits_keep_their_order_in_batches(texts: Collection) -> None:
    cursor = await texts.aggregate([search_stage(EVERYTHING, sort={"day": -1})], batchSize=2)
    assert [hit["_id"] async for hit in cursor] == list(range(len(TEXTS)))[::-1]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, {"lowerBound": 7}),
        ({"type": "lowerBound"}, {"lowerBound": 7}),
        ({"type": "total"}, {"total": 7}),
        ({"type": "total", "threshold": 2}, {"total": 7}),
    ],
)
async def test_matches_are_counted(texts: Collection, count: Document | None, expected: Document) -> None:
    more = {} if count is None else {"count": count}
    arguments = search_stage(EVERYTHING, **more)["$search"]
    assert await run(texts, {"$searchMeta": arguments}) == [{"count": expected}]
    hits = await run(texts, search_stage(EVERYTHING, **more), {"$limit": 1}, {"$project": {"meta": "$$SEARCH_META"}})
    assert [hit["meta"] for hit in hits] == [{"count": expected}]


async def test_a_lower_bound_is_no_more_than_that_above_its_threshold(texts: Collection) -> None:
    arguments = search_stage(EVERYTHING, count={"threshold": 2})["$search"]
    (metadata,) = await run(texts, {"$searchMeta": arguments})
    assert 2 < metadata["count"]["lowerBound"] <= len(TEXTS)


async def test_a_part_of_the_meta_data_can_be_read_after_a_facet(texts: Collection) -> None:
    facets = {"best": [{"$limit": 1}], "meta": [{"$replaceWith": "$$SEARCH_META"}, {"$limit": 1}]}
    (answer,) = await run(texts, search_stage(QUICK), {"$facet": facets})
    assert len(answer["best"]) == 1
    assert answer["meta"] == [{"count": {"lowerBound": 3}}]
    total = {"$set": {"total": "$$SEARCH_META.count.total"}}
    hits = await run(texts, search_stage(QUICK, count={"type": "total"}), total)
    assert [hit["total"] for hit in hits] == [3, 3, 3]


async def test_meta_data_of_a_missing_index_say_that_nothing_matches(texts: Collection) -> None:
    arguments = search_stage(QUICK, index="missing")["$search"]
    assert await run(texts, {"$searchMeta": arguments}) == [{"count": {"total": 0}}]


async def test_a_text_search_may_begin_the_pipeline_of_a_union(texts: Collection) -> None:
    union = {"coll": texts.name, "pipeline": [search_stage(QUICK), {"$set": {"inner": SCORE}}]}
    hits = await run(texts, search_stage(EVERYTHING), {"$set": {"outer": SCORE}}, {"$unionWith": union})
    assert [("outer" in hit, "inner" in hit) for hit in hits] == [(True, False)] * 7 + [(False, True)] * 3


async def test_meta_data_may_begin_the_pipeline_of_a_union(texts: Collection) -> None:
    union = {"coll": texts.name, "pipeline": [{"$searchMeta": search_stage(QUICK)["$search"]}]}
    rows = await run(texts, search_stage(QUICK), {"$limit": 1}, {"$unionWith": union})
    assert rows[1:] == [{"count": {"lowerBound": 3}}]


async def test_a_text_search_may_begin_the_pipeline_of_a_lookup(texts: Collection) -> None:
    inner = [search_stage({"text": {"query": "lazy", "path": "text"}}), {"$project": {"score": SCORE}}]
    lookup = {"from": texts.name, "pipeline": inner, "as": "found"}
    (row,) = await run(texts, {"$match": {"_id": 1}}, {"$lookup": lookup})
    assert [sorted(one) for one in row["found"]] == [["_id", "score"]]
    assert row["found"][0]["_id"] == 0


async def test_vector_and_text_hits_are_fused_in_one_pipeline(things: Collection) -> None:
    texts = ["apple pie", "apple", "plum"]
    await things.insert_many(
        [{"_id": n, "s": text, "embedding": [1.0, float(2 - n), 0.0, 0.0]} for n, text in enumerate(texts)]
    )
    await create_ready(things, vector_field())
    await things.create_search_index(text_model(mappings({"s": {"type": "string"}})))
    await wait_ready(things, "texts")

    def ranked(weight: float, score: str) -> list[Document]:
        return [
            {"$set": {"seen": {"$meta": score}}},
            {"$group": {"_id": None, "docs": {"$push": "$$ROOT"}}},
            {"$unwind": {"path": "$docs", "includeArrayIndex": "rank"}},
            {
                "$project": {
                    "_id": "$docs._id",
                    "seen": "$docs.seen",
                    "part": {"$divide": [weight, {"$add": ["$rank", 60]}]},
                }
            },
        ]

    text = [search_stage({"text": {"query": "apple", "path": "s"}}), *ranked(1.0, "searchScore")]

    async def fused() -> bool:
        rows = await run(
            things,
            stage([1.0, 0.0, 0.0, 0.0]),
            *ranked(1.0, "vectorSearchScore"),
            {"$unionWith": {"coll": things.name, "pipeline": text}},
            {"$group": {"_id": "$_id", "score": {"$sum": "$part"}, "seen": {"$push": "$seen"}}},
            {"$sort": {"score": -1}},
        )
        return [row["_id"] for row in rows] == [1, 0, 2] and [len(row["seen"]) for row in rows] == [2, 2, 1]

    await eventually(fused)


@pytest.mark.parametrize("name", ["$search", "$searchMeta"])
async def test_a_text_search_that_is_not_the_first_stage_is_refused(texts: Collection, name: str) -> None:
    with refused(40602, f"{name} is only valid as the first stage in a pipeline"):
        await run(texts, {"$match": {}}, {name: search_stage(QUICK)["$search"]})


async def test_a_text_search_inside_a_facet_is_refused(texts: Collection) -> None:
    with refused(40600, "not allowed"):
        await run(texts, {"$facet": {"hits": [search_stage(QUICK)]}})


async def test_a_text_search_with_another_read_concern_is_refused(texts: Collection) -> None:
    with pytest.raises(OperationFailure):
        await run(texts.with_options(read_concern=ReadConcern("majority")), search_stage(QUICK))


async def test_a_text_search_in_a_transaction_is_refused_and_aborts_it(texts: Collection, things: Collection) -> None:
    async with things.database.client.start_session() as session:
        await session.start_transaction()
        await things.insert_one({"_id": "never"}, session=session)
        with refused(TRANSACTIONS_REFUSED, "$search cannot run within a multi-document transaction"):
            await run(texts, search_stage(QUICK), session=session)
        with refused(NO_SUCH_TRANSACTION):
            await session.commit_transaction()
    assert await things.find_one({"_id": "never"}) is None
