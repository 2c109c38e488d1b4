"""One search over several knowledge bases."""

from typing import Any

import pytest

from kb_search.retrieval import hit_finder
from kb_search.retrieval.fusion import WEIGHTS, QueryShape
from kb_search.retrieval.search_index import index_not_ready
from kb_shared.mongo import index_queries
from kb_shared.mongo.chunk_indexes import TEXT_INDEX
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import Status
from kb_shared.mongo.vectors import Chunks
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create

SEVERAL = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"


async def search(
    searcher: SearchingCaller, *knowledge: Knowledge, query: str = "kayak", **fields: Any
) -> dict[str, Any]:
    kb_ids = {"kb_ids": [one.kb.kb_id for one in knowledge]} if knowledge else {}
    response = await searcher.post(SEVERAL, {"query": query, **kb_ids, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_hits_of_all_come_by_their_scores_among_those_of_their_knowledge_base(
    searcher: SearchingCaller, search_database: Database
) -> None:
    boats = await create(search_database, ORGANIZATION, name="Boats")
    others = await create(search_database, ORGANIZATION, name="Others")
    await boats.index(DocumentToIndex("d1", ["kayak", "canoe"]))
    await others.index(DocumentToIndex("d2", ["a kayak is a boat"]))
    answer = await search(searcher, others, boats)
    assert {one["kb_id"] for one in answer["results"][:2]} == {boats.kb.kb_id, others.kb.kb_id}
    weights = WEIGHTS[QueryShape.WORDS]
    equal, with_the_word = [one["scores"]["fused"] for one in answer["results"][:2]]
    assert equal == pytest.approx(weights.vector + weights.text, abs=0.01)
    assert weights.text <= with_the_word < equal
    assert {(one["kb_id"], one["name"], one["kb_status"]) for one in answer["knowledge_bases"]} == {
        (boats.kb.kb_id, "Boats", "active"),
        (others.kb.kb_id, "Others", "active"),
    }
    assert (answer["total_count"], answer["total_count_is_exact"], answer["failures"]) == (3, True, [])


async def test_one_embedding_serves_all_that_share_a_model(
    searcher: SearchingCaller, search_database: Database
) -> None:
    several = [await create(search_database, ORGANIZATION) for _ in range(3)]
    for knowledge in several:
        await knowledge.index(DocumentToIndex("d", ["kayak"]))
    assert (await search(searcher, *several))["spu_charged"] == 1
    assert (await search(searcher, *several))["spu_charged"] == 0


async def test_a_document_in_two_of_them_comes_once(searcher: SearchingCaller, search_database: Database) -> None:
    several = [await create(search_database, ORGANIZATION) for _ in range(2)]
    for knowledge in several:
        await knowledge.index(DocumentToIndex("d", ["kayak"]))
    answer = await search(searcher, *several)
    assert len(answer["results"]) == answer["total_count"] == 1


async def test_without_kb_ids_all_knowledge_bases_of_the_organization_are_searched_and_no_others(
    new_searcher: NewSearcher, search_database: Database
) -> None:
    mine = [await create(search_database, ORGANIZATION) for _ in range(2)]
    theirs = await create(search_database, "other")
    for number, knowledge in enumerate([*mine, theirs]):
        await knowledge.index(DocumentToIndex(f"d{number}", [f"kayak {number}"]))
    answer = await search(await new_searcher())
    assert {one["document_id"] for one in answer["results"]} == {"d0", "d1"}
    assert {one["kb_id"] for one in answer["knowledge_bases"]} == {one.kb.kb_id for one in mine}


async def test_an_organization_without_any_gets_an_empty_answer(searcher: SearchingCaller) -> None:
    answer = await search(searcher)
    assert (answer["results"], answer["knowledge_bases"], answer["failures"]) == ([], [], [])


async def test_a_failure_in_one_kb_is_listed_beside_the_results_of_the_others(
    searcher: SearchingCaller, search_database: Database
) -> None:
    whole = await create(search_database, ORGANIZATION, filterable_metadata=("year",))
    await whole.index(DocumentToIndex("d", ["kayak"], metadata={"year": 2024}))
    without_words = await create(search_database, ORGANIZATION, filterable_metadata=("year",))
    await without_words.chunks.collection.drop_search_index(TEXT_INDEX)
    unknown_model = await create(
        search_database, ORGANIZATION, filterable_metadata=("year",), embedding_model="no-such-model"
    )
    without_year = await create(search_database, ORGANIZATION)
    deleted = await create(search_database, ORGANIZATION)
    await deleted.set_status(Status.DELETING)
    foreign = await create(search_database, "other")
    several = (whole, without_words, unknown_model, without_year, deleted, foreign)
    answer = await search(searcher, *several, metadata_filter={"year": {"$gt": 2020}})
    assert [one["document_id"] for one in answer["results"]] == ["d"]
    assert [one["kb_id"] for one in answer["knowledge_bases"]] == [whole.kb.kb_id]
    assert {one["kb_id"]: (one["status"], one["type"]) for one in answer["failures"]} == {
        without_words.kb.kb_id: (503, "index-not-ready"),
        unknown_model.kb.kb_id: (503, "provider-refused"),
        without_year.kb.kb_id: (422, "not-filterable"),
        deleted.kb.kb_id: (404, "not-found"),
        foreign.kb.kb_id: (404, "not-found"),
    }
    assert all(one["detail"] for one in answer["failures"])


async def test_when_none_can_be_searched_it_is_the_problem_of_the_first(
    searcher: SearchingCaller, search_database: Database
) -> None:
    foreign = await create(search_database, "other")
    response = await searcher.post(SEVERAL, {"query": "x", "kb_ids": [foreign.kb.kb_id, "$where"]})
    assert (response.status_code, response.json()["type"]) == (404, "not-found")


async def test_neighbours_and_budget_hold_for_all_together(
    searcher: SearchingCaller, search_database: Database
) -> None:
    several = [await create(search_database, ORGANIZATION, coalesce_neighbors=n) for n in (0, 1)]
    for number, knowledge in enumerate(several):
        await knowledge.index(DocumentToIndex(f"d{number}", [("kayak", "kayak!")[number], f"next {number}"]))
    answer = await search(searcher, *several, mode="text")
    assert [(one["document_id"], one["chunk_index"]) for one in answer["results"]] == [("d0", 0), ("d1", 0), ("d1", 1)]
    assert (await search(searcher, *several, mode="text", max_tokens=1))["omitted_count"] == 2


async def test_a_chunk_of_a_document_in_two_of_them_comes_once_as_a_match_or_a_neighbour(
    searcher: SearchingCaller, search_database: Database
) -> None:
    one, other = [await create(search_database, ORGANIZATION) for _ in range(2)]
    texts = ["zero kayak", "one canoe", "two oars"]
    # What ranks first in each makes the first chunk a match of one and the second a match of the other.
    for knowledge, filler in ((one, "canoe canoe canoe"), (other, "kayak kayak kayak")):
        await knowledge.index(DocumentToIndex("d", texts))
        await knowledge.index(DocumentToIndex(f"f{filler[0]}", [filler]))
    answer = await search(searcher, one, other, query="kayak canoe", mode="text", coalesce_neighbors=1)
    found = [(each["document_id"], each["chunk_index"], each["is_matched"]) for each in answer["results"]]
    of_d = sorted(each for each in found if each[0] == "d")
    assert len({each["kb_id"] for each in answer["results"] if each["document_id"] == "d"}) == 2, "matches of both"
    assert of_d == [("d", 0, True), ("d", 1, True), ("d", 2, False)]


async def test_a_kb_that_fails_in_the_first_round_stays_out_of_the_second(
    searcher: SearchingCaller, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded, flaky = [await create(search_database, ORGANIZATION) for _ in range(2)]
    await crowded.index(DocumentToIndex("d", [f"filler {n}" for n in range(60)]))
    # As if most of the hits had been replaced meanwhile.
    monkeypatch.setattr(hit_finder, "leg_limit", lambda *_, **__: 5)
    await flaky.index(DocumentToIndex("e", ["kayak"]))
    query_vector_index, asked = index_queries.query_vector_index, []

    async def failing_at_first(chunks: Chunks, *args: Any, **kwargs: Any) -> dict[str, float]:
        asked.append(chunks.kb_id)
        if asked.count(flaky.kb.kb_id) == 1 and chunks.kb_id == flaky.kb.kb_id:
            raise index_not_ready()
        return await query_vector_index(chunks, *args, **kwargs)

    monkeypatch.setattr(index_queries, "query_vector_index", failing_at_first)
    answer = await search(searcher, crowded, flaky, query="x", top_k=20)
    assert asked.count(crowded.kb.kb_id) > 1
    assert [one["kb_id"] for one in answer["results"]] == [crowded.kb.kb_id] * 20
    assert [one["kb_id"] for one in answer["failures"]] == [flaky.kb.kb_id]
