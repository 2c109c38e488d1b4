"""A search over HTTP: what is found, and what is said about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY, generate_latest

from kb_contracts.commands import Reason, SyncDocument
from kb_search.log_queries import QueryLog
from kb_search.retrieval.fusion import WEIGHTS, QueryShape
from kb_search.retrieval.hit_finder import HitFinder
from kb_search.retrieval.last_searched import LastSearched
from kb_search.retrieval.optimistic_read import StaleRead
from kb_search.retrieval.query import SearchCaller, SearchQuery
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_shared.embedding.embedder import Embedder
from kb_shared.mongo import index_jobs, index_queries, knowledge_bases, spu_ledger, vectors
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import SyncRequest
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import Status
from tests.integration.search.conftest import NewSearcher, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create, relevance
from tests.waiting import until


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def contents(answer: dict[str, Any]) -> list[str]:
    return [result["content"] for result in answer["results"]]


async def test_the_nearest_chunk_comes_first_with_all_that_is_known_of_it(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    texts = ["the cat sat", "grüße an 東京 🗼", "a third one"]
    read = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    await knowledge.index(
        DocumentToIndex(
            "d1", texts, name="Ünï.pdf", metadata={"year": 2024, "big": 2**40, "read": read, "draft": False}
        )
    )
    answer = await searcher.search(knowledge, texts[1], top_k=2)

    first, second = answer["results"]
    citation = first.pop("citation")
    assert first.pop("chunk_id") == citation
    assert citation in vectors.chunk_ids("d1", DocumentToIndex("d1", texts).chunks())
    scores = first.pop("scores")
    fused = WEIGHTS[QueryShape.WORDS].vector + WEIGHTS[QueryShape.WORDS].text
    assert (scores.pop("vector_rank"), scores.pop("text_rank")) == (1, 1)
    assert scores == {"vector": pytest.approx(1), "text": scores["text"], "fused": pytest.approx(fused)}
    assert scores["text"] > 0
    assert first == {
        "content": texts[1],
        "source": "Ünï.pdf",
        "document_id": "d1",
        "chunk_index": 1,
        "score": pytest.approx(1),
        "strength": "strong",
        "also_in": [],
        "relevance": pytest.approx(1),
        "is_matched": True,
        "kb_id": knowledge.kb.kb_id,
        "highlights": [{"start": 0, "end": 5}, {"start": 9, "end": 10}, {"start": 10, "end": 11}],
        "start": 0,
        "end": len(texts[1]),
        "page_start": 1,
        "page_end": 2,
        "heading_path": ["Title", "Part 1"],
        "metadata": {"year": 2024, "big": 2**40, "read": "2026-03-01T08:30:00Z", "draft": False},
        "truncated": False,
    }
    assert second["relevance"] == pytest.approx(relevance(texts[1], second["content"]), abs=1e-5)
    assert 0 <= second["relevance"] <= first["relevance"] <= 1
    timings = answer.pop("timings_ms")
    assert timings.keys() == {"embed", "vector", "text", "read", "total"}
    assert timings["total"] >= timings["embed"] + max(timings["vector"], timings["text"]) + timings["read"] > 0
    del answer["results"]
    assert answer == {
        "query": texts[1],
        "total_count": 3,
        "total_count_is_exact": True,
        "skip": 0,
        "top_k": 2,
        "omitted_count": 0,
        "total_tokens": sum(len(one["content"].split()) for one in (first, second)),
        "kb_status": "active",
        "spu_charged": 1,
        "query_vector_cached": False,
        "degraded": [],
    }


async def test_an_answer_says_whether_the_querys_vector_came_from_the_cache(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    name = "kb_search_query_vector_cache_hits_total"
    other = await create(search_database, "acme", embedding_model="hash-24", embedding_dimensions=24)
    everywhere = "/v0/orgs/acme/knowledge-bases/search"
    hits = counted(name)
    answers = [await searcher.search(knowledge, "how much?") for _ in range(2)]
    assert [answer["query_vector_cached"] for answer in answers] == [False, True]
    assert counted(name) - hits == 1
    several = {"query": "how much?", "kb_ids": [knowledge.kb.kb_id, other.kb.kb_id]}
    cached = [(await searcher.post(everywhere, several)).json()["query_vector_cached"] for _ in range(2)]
    assert cached == [False, True], "of two models one was new to the cache"
    assert (await searcher.search(knowledge, "how much?", mode="text"))["query_vector_cached"] is None


async def test_a_search_that_is_done_again_did_not_have_its_vector_from_the_cache(
    searcher: SearchingCaller, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, asked = HitFinder.find, 0

    async def outdated_once(finder: HitFinder, targets: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StaleRead
        return await original(finder, targets)

    monkeypatch.setattr(HitFinder, "find", outdated_once)
    assert (await searcher.search(knowledge, "again"))["query_vector_cached"] is False
    assert asked == 2


async def test_the_same_query_again_costs_nothing(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["one"]))
    costs = [(await searcher.search(knowledge, "how much?"))["spu_charged"] for _ in range(3)]
    assert costs == [1, 0, 0]
    charges = await search_database[spu_ledger.NAME].find().to_list()
    assert [(charge["organization_id"], charge["kb_id"]) for charge in charges] == [("acme", knowledge.kb.kb_id)]


async def test_pages_cover_every_chunk_once_in_one_order(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    for n in range(3):
        await knowledge.index(DocumentToIndex(f"d{n}", [f"text {n} {m}" for m in range(9)]))
    pages = [await searcher.search(knowledge, "what", top_k=5, skip=skip) for skip in range(0, 30, 5)]
    everything = [text for page in pages for text in contents(page)]
    by_relevance = sorted(everything, key=lambda text: relevance("what", text), reverse=True)
    assert everything == by_relevance
    assert sorted(everything) == sorted({f"text {n} {m}" for n in range(3) for m in range(9)})
    assert pages[-1]["total_count_is_exact"]
    assert pages[-1]["total_count"] == 27


async def test_min_score_cuts_by_relevance_and_defaults_to_what_the_kb_says(
    searcher: SearchingCaller, search_database: Database
) -> None:
    strict = await create(search_database, "acme", min_score=0.99)
    await strict.index(DocumentToIndex("d1", ["one", "two"]))
    assert contents(await searcher.search(strict, "one")) == ["one"]
    assert len(contents(await searcher.search(strict, "one", min_score=0))) == 2
    nothing = await searcher.search(strict, "three")
    assert (nothing["results"], nothing["total_count"]) == ([], 0)


async def test_a_large_kb_is_searched_by_the_graph(
    search_database: Database, embedder: Embedder, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact: list[bool] = []
    query_vector_index = index_queries.query_vector_index
    query_log = QueryLog(search_database, kept=timedelta(days=1))

    async def count_exact(*args: Any, **kwargs: Any) -> dict[str, float]:
        exact.append(kwargs["exact"])
        return await query_vector_index(*args, **kwargs)

    async def search(*, exact_up_to_chunks: int) -> list[str]:
        search = KnowledgeBaseSearch(
            search_database,
            embedder,
            last_searched=LastSearched(search_database),
            query_log=query_log,
            exact_up_to_chunks=exact_up_to_chunks,
            vector_within_s=60,
        )
        answer = await search.search(
            KnowledgeBaseKey("acme", knowledge.kb.kb_id),
            query=SearchQuery("one"),
            search_caller=SearchCaller("key", "sdk"),
            key=None,
        )
        return [hit.chunk["chunk_text"] for hit in answer.page.hits]

    await knowledge.index(DocumentToIndex("d1", ["one", "two"]))
    monkeypatch.setattr(index_queries, "query_vector_index", count_exact)
    assert await search(exact_up_to_chunks=1) == ["one", "two"]
    assert await search(exact_up_to_chunks=2) == ["one", "two"]
    assert exact == [False, True]
    await query_log.close()


async def test_a_kb_is_searched_while_it_is_being_filled(searcher: SearchingCaller, search_database: Database) -> None:
    knowledge = await create(search_database, "acme", status=Status.INDEXING)
    await knowledge.index(DocumentToIndex("d1", ["one"]))
    answer = await searcher.search(knowledge, "one")
    assert contents(answer) == ["one"]
    assert answer["kb_status"] == "indexing"


async def test_a_kb_is_indexing_for_searches_while_a_document_of_it_has_an_open_job(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    assert (await searcher.search(knowledge))["kb_status"] == "active"
    command = SyncDocument(organization_id="acme", kb_id=knowledge.kb.kb_id, document_id="d1", reason=Reason.BACKFILL)
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    await index_jobs.request(search_database, [SyncRequest([command], trace, datetime.now(UTC))])
    # With the KB as it was read for the search before.
    assert (await searcher.search(knowledge))["kb_status"] == "indexing"
    await index_jobs.delete_of_kb(search_database, knowledge.kb.key)
    assert (await searcher.search(knowledge))["kb_status"] == "active"


async def test_an_empty_kb_gives_an_empty_answer(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    answer = await searcher.search(knowledge)
    assert (answer["results"], answer["total_count"], answer["total_count_is_exact"]) == ([], 0, True)


async def test_the_kb_says_when_it_was_last_searched(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    before = datetime.now(UTC)
    await searcher.search(knowledge)

    async def written() -> bool:
        kb = await knowledge_bases.find(search_database, KnowledgeBaseKey("acme", knowledge.kb.kb_id))
        assert kb is not None
        # MongoDB keeps milliseconds.
        return kb.last_searched_at is not None and (before - kb.last_searched_at).total_seconds() < 0.001

    await until(written)


async def test_another_organizations_kb_is_the_same_404_as_one_that_never_was(
    new_searcher: NewSearcher, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["secret"]))
    stranger = await new_searcher("other")
    never_was = "0" * 24
    paths = [
        f"/v0/orgs/other/knowledge-bases/{kb_id}/search" for kb_id in (knowledge.kb.kb_id, never_was, "x", "$where")
    ]
    answers = [await stranger.post(path, {"query": "secret"}) for path in paths]
    assert {answer.status_code for answer in answers} == {404}
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert all(body == bodies[0] for body in bodies)
    assert (await stranger.post(knowledge, {"query": "secret"})).status_code == 404


async def test_a_kb_with_the_id_of_another_organization_in_its_rows_stays_closed(
    new_searcher: NewSearcher, knowledge: Knowledge, search_database: Database
) -> None:
    """Were a collection ever shared, the organization's clause alone keeps strangers out."""
    await knowledge.index(DocumentToIndex("d1", ["secret"]))
    other = await create(search_database, "other", vector_collection=knowledge.kb.vector_collection)
    stranger = await new_searcher("other")
    assert (await stranger.search(other, "secret"))["results"] == []


async def test_searching_takes_a_key_with_the_scope(new_searcher: NewSearcher, knowledge: Knowledge) -> None:
    reader = await new_searcher(scope=Scope.READ)
    assert (await reader.post(knowledge, {"query": "x"})).status_code == 403
    stranger = SearchingCaller(reader.http, "kb_no_key")
    assert (await stranger.post(knowledge, {"query": "x"})).status_code == 401


async def test_no_query_stands_in_a_log_or_a_metric(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    canary = "canary-query-4711"
    await knowledge.index(DocumentToIndex("d1", ["canary-text-4711"]))
    with structlog.testing.capture_logs() as logs:
        await searcher.search(knowledge, canary)
        await searcher.post(knowledge, {"query": canary, "metadata_filter": {"color": {"$gt": canary}}})
    assert [log["event"] for log in logs] == ["search.answered", "http.refused"]
    assert "canary" not in repr(logs) + generate_latest().decode()


async def test_searches_and_refused_filters_are_counted(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    async def growth(body: dict[str, Any], name: str, **labels: str) -> float:
        before = counted(name, **labels)
        await searcher.post(knowledge, {"query": "x", **body})
        return counted(name, **labels) - before

    refused = {"metadata_filter": {"a": {"$gt": 1}}}
    assert await growth({}, "kb_search_requests_total", outcome="nothing_found") == 1
    assert await growth({}, "kb_search_results_count_count") == 1
    assert await growth({}, "kb_search_seconds_count", stage="vector") == 1
    assert await growth(refused, "kb_search_requests_total", outcome="refused") == 1
    assert await growth(refused, "kb_search_filter_rejected_total", reason="operator") == 1
