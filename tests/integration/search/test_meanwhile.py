"""What is committed between asking the search index and reading what it found."""

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pymongo.errors import OperationFailure

from kb_search.store import found_chunks
from kb_search.store.found_chunks import FoundChunks
from kb_shared.mongo import document_index, index_queries, vectors
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Database, in_transaction
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import Status
from kb_shared.mongo.vectors import Chunks
from tests.integration.search.conftest import SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create, relevance

Meanwhile = Callable[[Callable[[], Awaitable[object]]], None]
QUERY = "old 1"
SEVERAL = "/v0/orgs/acme/knowledge-bases/search"


@pytest.fixture
def after_the_index_has_answered(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run something once the hits are known and not yet read."""
    query_vector_index = index_queries.query_vector_index

    def arm(action: Callable[[], Awaitable[object]]) -> None:
        async def and_then(*args: Any, **kwargs: Any) -> dict[str, float]:
            hits = await query_vector_index(*args, **kwargs)
            monkeypatch.setattr(index_queries, "query_vector_index", query_vector_index)
            await action()
            return hits

        monkeypatch.setattr(index_queries, "query_vector_index", and_then)

    return arm


def contents(answer: dict[str, Any]) -> set[str]:
    return {result["content"] for result in answer["results"]}


async def test_a_replaced_document_is_shown_in_one_version(
    searcher: SearchingCaller, knowledge: Knowledge, after_the_index_has_answered: Meanwhile
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1", "old 2"]))
    replaced = DocumentToIndex("d", ["new 1", "new 2"])
    after_the_index_has_answered(lambda: knowledge.index(replaced))
    # The page is full, so that the index, which knows the new version by now, is not asked once more.
    assert contents(await searcher.search(knowledge, QUERY, top_k=2)) == {"old 1", "old 2"}
    assert contents(await searcher.search(knowledge, QUERY)) == {"new 1", "new 2"}


async def test_only_the_unchanged_chunks_of_a_partly_changed_document_are_shown(
    searcher: SearchingCaller, knowledge: Knowledge, after_the_index_has_answered: Meanwhile
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1", "stays"]))
    after_the_index_has_answered(lambda: knowledge.index(DocumentToIndex("d", ["new 1", "stays"])))
    assert contents(await searcher.search(knowledge, QUERY, top_k=1)) == {"stays"}


async def test_replaced_chunks_that_fill_a_page_are_superseded_by_live_chunks_below(
    searcher: SearchingCaller, knowledge: Knowledge, after_the_index_has_answered: Meanwhile
) -> None:
    texts = sorted((f"text {n}" for n in range(36)), key=lambda text: relevance(QUERY, text), reverse=True)
    replaced, stays, others = texts[:15], texts[15], texts[16:]
    await knowledge.index(DocumentToIndex("e", others))
    await knowledge.index(DocumentToIndex("d", [*replaced, stays]))
    assert contents(await searcher.search(knowledge, QUERY, mode="vector", top_k=12)) == {*replaced[:12]}
    after_the_index_has_answered(lambda: knowledge.index(DocumentToIndex("d", [stays])))
    assert contents(await searcher.search(knowledge, QUERY, mode="vector", top_k=10)) == {stays, *others[:9]}


async def test_a_live_chunk_below_min_score_still_hides_the_chunks_that_it_replaced(
    searcher: SearchingCaller, knowledge: Knowledge, after_the_index_has_answered: Meanwhile
) -> None:
    texts = sorted((f"text {n}" for n in range(200)), key=lambda text: relevance(QUERY, text), reverse=True)
    best, second, stays = texts[0], texts[1], texts[-1]
    least = (relevance(QUERY, second) + relevance(QUERY, stays)) / 2
    for document_id, text in (("a", best), ("b", second)):
        await knowledge.index(DocumentToIndex(document_id, [text]))
    await knowledge.index(DocumentToIndex("d", [QUERY, stays]))
    after_the_index_has_answered(lambda: knowledge.index(DocumentToIndex("d", [stays])))
    assert contents(await searcher.search(knowledge, QUERY, mode="vector", top_k=2, min_score=least)) == {best, second}


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
async def test_the_count_of_few_chunks_is_exact(searcher: SearchingCaller, knowledge: Knowledge, mode: str) -> None:
    await knowledge.index(DocumentToIndex("d", [f"text {n}" for n in range(12)]))
    answer = await searcher.search(knowledge, "text", mode=mode, top_k=5)
    assert (answer["total_count"], answer["total_count_is_exact"]) == (12, True)


async def test_a_document_that_left_is_not_shown(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, after_the_index_has_answered: Meanwhile
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await knowledge.index(DocumentToIndex("e", ["other"]))

    async def leave() -> None:
        await in_transaction(
            search_database,
            lambda session: document_index.delete(
                search_database, session, MembershipKey("acme", knowledge.kb.kb_id, "d")
            ),
        )

    after_the_index_has_answered(leave)
    assert contents(await searcher.search(knowledge, QUERY)) == {"other"}


async def test_a_hit_that_no_longer_matches_the_filter_is_not_shown(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, after_the_index_has_answered: Meanwhile
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"], tag_ids=["t1"]))
    retagged = DocumentToIndex("d", ["old 1"], tag_ids=["t2"])

    async def retag() -> None:
        await in_transaction(
            search_database,
            lambda session: vectors.update_metadata(
                knowledge.chunks, session, "d", metadata=retagged.metadata_of_chunks()
            ),
        )

    after_the_index_has_answered(retag)
    answer = await searcher.search(knowledge, QUERY, tag_ids=["t1"])
    assert (answer["results"], answer["total_count"]) == ([], 0)


async def test_a_kb_that_was_deleted_is_gone(
    searcher: SearchingCaller, knowledge: Knowledge, after_the_index_has_answered: Meanwhile
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    after_the_index_has_answered(knowledge.delete)
    assert (await searcher.post(knowledge, {"query": QUERY})).status_code == 404


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_a_kb_that_was_deleted_before_its_last_index_answers_is_gone(
    searcher: SearchingCaller, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    query_text_index = index_queries.query_text_index

    async def when_deleted(*args: Any, **kwargs: Any) -> dict[str, float]:
        monkeypatch.setattr(index_queries, "query_text_index", query_text_index)
        await knowledge.delete()
        return await query_text_index(*args, **kwargs)

    monkeypatch.setattr(index_queries, "query_text_index", when_deleted)
    # The index went with its KB: to say that it is being built would have the caller come again in vain.
    assert (await searcher.post(knowledge, {"query": QUERY, "mode": mode})).status_code == 404


async def test_a_kb_deleted_while_several_are_read_is_a_failure_of_its_own(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = await create(search_database, "acme")
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await deleted.index(DocumentToIndex("e", ["old 1 and more"]))
    read = found_chunks.read_found
    deletions = iter([deleted.delete])

    async def and_deleted(chunks: Chunks, *args: Any, **kwargs: Any) -> FoundChunks:
        if chunks.kb_id == deleted.kb.kb_id:
            for delete in deletions:
                await delete()
                # What a snapshot of a collection that is dropped may say.
                raise OperationFailure("Unable to read from a snapshot", code=246)
        return await read(chunks, *args, **kwargs)

    monkeypatch.setattr(found_chunks, "read_found", and_deleted)
    kb_ids = [deleted.kb.kb_id, knowledge.kb.kb_id]
    response = await searcher.post(SEVERAL, {"query": QUERY, "kb_ids": kb_ids})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert contents(answer) == {"old 1"}
    assert [(one["kb_id"], one["status"]) for one in answer["failures"]] == [(deleted.kb.kb_id, 404)]
    assert [one["kb_id"] for one in answer["knowledge_bases"]] == [knowledge.kb.kb_id]


@pytest.mark.parametrize(("losses", "status"), [(1, 200), (5, 503)])
async def test_a_lost_snapshot_is_taken_again_a_few_times(
    searcher: SearchingCaller, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, losses: int, status: int
) -> None:
    """Only changes of a collection's catalog do this, and only for a moment: too rare to bring about."""
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    read = found_chunks.read_found
    failures = iter([OperationFailure("Unable to read from a snapshot", code=246)] * losses)

    async def failing(*args: Any, **kwargs: Any) -> FoundChunks:
        for failure in failures:
            raise failure
        return await read(*args, **kwargs)

    monkeypatch.setattr(found_chunks, "read_found", failing)
    assert (await searcher.post(knowledge, {"query": QUERY})).status_code == status


async def test_replaced_chunks_that_crowd_the_hits_do_not_shorten_a_page(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    for version in range(4):
        await knowledge.index(DocumentToIndex("d", [f"{version} {n}" for n in range(30)]))
    answer = await searcher.search(knowledge, "x", top_k=20)
    assert len(contents(answer)) == 20
    assert all(content.startswith("3 ") for content in contents(answer))


async def test_an_index_that_disappeared_is_no_empty_answer(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await knowledge.chunks.collection.drop_search_index(VECTOR_INDEX)
    response = await searcher.post(knowledge, {"query": QUERY})
    assert (response.status_code, response.json()["type"]) == (503, "index-not-ready")
    assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("leg", ["query_vector_index", "query_text_index"])
async def test_an_index_that_has_too_much_to_do_says_when_to_come_again(
    searcher: SearchingCaller, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, leg: str
) -> None:
    overloaded = OperationFailure("$search could not be served", code=489)
    monkeypatch.setattr(index_queries, leg, AsyncMock(side_effect=overloaded))
    for path in (knowledge.path, SEVERAL):
        response = await searcher.post(path, {"query": QUERY})
        assert (response.status_code, response.json()["type"]) == (503, "search-overloaded")
        assert int(response.headers["retry-after"]) >= 1
    other = {"query_vector_index": "text", "query_text_index": "vector"}[leg]
    assert (await searcher.post(knowledge, {"query": QUERY, "mode": other})).status_code == 200


async def test_a_collection_that_disappeared_is_no_empty_answer(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.chunks.collection.drop()
    assert (await searcher.post(knowledge, {"query": QUERY})).status_code == 503


@pytest.mark.parametrize(
    ("missing", "refused", "answered"),
    [(TEXT_INDEX, ["text", "hybrid"], ["vector"]), (VECTOR_INDEX, ["vector", "hybrid"], ["text"])],
)
async def test_only_a_search_that_needs_an_index_waits_for_it(
    searcher: SearchingCaller, knowledge: Knowledge, missing: str, refused: list[str], answered: list[str]
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await knowledge.chunks.collection.drop_search_index(missing)
    for mode in refused:
        response = await searcher.post(knowledge, {"query": QUERY, "mode": mode})
        assert (response.status_code, response.json()["type"]) == (503, "index-not-ready")
        assert int(response.headers["retry-after"]) >= 1
    for mode in answered:
        assert contents(await searcher.search(knowledge, QUERY, mode=mode)) == {"old 1"}


@pytest.mark.parametrize("status", [Status.CREATING, Status.BUILDING])
async def test_a_kb_is_searched_as_soon_as_its_indexes_answer(
    searcher: SearchingCaller, knowledge: Knowledge, status: Status
) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await knowledge.set_status(status)
    answer = await searcher.search(knowledge, QUERY)
    assert (contents(answer), answer["kb_status"]) == ({"old 1"}, "indexing")


async def test_a_kb_without_a_collection_is_no_empty_answer(
    searcher: SearchingCaller, search_database: Database
) -> None:
    creating = await create(search_database, "acme", status=Status.CREATING, vector_collection="none", ready=False)
    for mode in ("vector", "text", "hybrid"):
        response = await searcher.post(creating, {"query": QUERY, "mode": mode})
        assert (response.status_code, response.json()["type"]) == (503, "index-not-ready")


async def test_a_kb_that_is_being_deleted_is_gone_already(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    await knowledge.index(DocumentToIndex("d", ["old 1"]))
    await knowledge.set_status(Status.DELETING)
    assert (await searcher.post(knowledge, {"query": QUERY})).status_code == 404
