"""What comes with the matches, and how much of it."""

from datetime import timedelta
from typing import Any

import pytest

from kb_shared.mongo.database import Database
from kb_shared.text.tokens import count_tokens
from tests.integration.search.conftest import SearchingCaller
from tests.integration.search.knowledge import JANUARY, DocumentToIndex, Knowledge, create

SENTENCE = "One two three four five six seven eight nine. "


def places(answer: dict[str, Any]) -> list[tuple[str, int, bool]]:
    return [(one["document_id"], one["chunk_index"], one["is_matched"]) for one in answer["results"]]


async def test_neighbours_come_once_beside_their_matches_and_say_that_they_are_none(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["zero", "one kayak", "two", "three kayak", "four", "five"]))
    await knowledge.index(DocumentToIndex("d2", ["other"]))
    answer = await searcher.search(knowledge, "kayak", mode="text", coalesce_neighbors=1, top_k=2)
    assert places(answer) == [
        ("d1", 0, False),
        ("d1", 1, True),
        ("d1", 2, False),
        ("d1", 3, True),
        ("d1", 4, False),
    ]
    neighbour = answer["results"][0]
    assert neighbour["relevance"] is None
    assert set(neighbour["scores"].values()) == {None}
    assert neighbour["content"] == "zero"
    assert neighbour["citation"].startswith("d1:")
    assert (answer["total_count"], answer["total_tokens"]) == (2, 7)


async def test_neighbours_never_come_from_another_document_and_groups_stand_by_their_best_match(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("a", ["first", "kayak and more words about it"]))
    await knowledge.index(DocumentToIndex("b", ["kayak", "last"]))
    answer = await searcher.search(knowledge, "kayak", mode="text", coalesce_neighbors=5)
    assert places(answer) == [("b", 0, True), ("b", 1, False), ("a", 0, False), ("a", 1, True)]


async def test_top_k_and_skip_count_matches_only(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    await knowledge.index(DocumentToIndex("d", [f"kayak {n}" if n % 4 == 1 else f"filler {n}" for n in range(12)]))
    answer = await searcher.search(knowledge, "kayak", mode="text", coalesce_neighbors=1, top_k=1, skip=1)
    assert [matched for _, _, matched in places(answer)] == [False, True, False]
    assert answer["total_count"] == 3


async def test_without_being_asked_the_knowledge_base_says_how_many(
    searcher: SearchingCaller, search_database: Database
) -> None:
    generous = await create(search_database, "acme", coalesce_neighbors=1)
    await generous.index(DocumentToIndex("d", ["zero", "kayak", "two"]))
    assert len(places(await searcher.search(generous, "kayak", mode="text"))) == 3
    assert len(places(await searcher.search(generous, "kayak", mode="text", coalesce_neighbors=0))) == 1


async def test_neighbours_are_of_the_version_that_is_shown(searcher: SearchingCaller, knowledge: Knowledge) -> None:
    await knowledge.index(DocumentToIndex("d", ["old zero", "kayak", "old two"]))
    await knowledge.index(DocumentToIndex("d", ["new zero", "kayak", "new two"]))
    answer = await searcher.search(knowledge, "kayak", mode="text", coalesce_neighbors=1)
    assert [one["content"] for one in answer["results"]] == ["new zero", "kayak", "new two"]


async def test_no_neighbour_comes_from_a_version_that_was_longer(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d", ["kayak", "old one"]))
    await knowledge.index(DocumentToIndex("d", ["kayak"]))
    answer = await searcher.search(knowledge, "kayak", mode="text", coalesce_neighbors=5)
    assert [one["content"] for one in answer["results"]] == ["kayak"]


def long(document_id: str, *, sentences: int, days: int = 0) -> DocumentToIndex:
    text = f"kayak {document_id}. " + SENTENCE * sentences
    return DocumentToIndex(document_id, [text.strip()], upload_date=JANUARY + timedelta(days=days))


@pytest.fixture
async def essays(knowledge: Knowledge) -> Knowledge:
    for document in (long("a", sentences=10), long("b", sentences=20, days=2), long("c", sentences=30, days=1)):
        await knowledge.index(document)
    return knowledge


async def test_a_budget_keeps_what_it_has_room_for_and_says_what_it_left_out(
    searcher: SearchingCaller, essays: Knowledge
) -> None:
    everything = await searcher.search(essays, "kayak", mode="text")
    assert (everything["omitted_count"], len(everything["results"])) == (0, 3)
    some = await searcher.search(essays, "kayak", mode="text", max_tokens=250)
    [first, cut] = some["results"]
    assert (first["document_id"], first["truncated"]) == ("a", False)
    assert (cut["document_id"], cut["truncated"]) == ("b", True)
    assert cut["content"].endswith("nine.")
    assert some["omitted_count"] == 1
    assert some["total_count"] == 3


async def test_tokens_of_a_cut_passage_are_counted(searcher: SearchingCaller, essays: Knowledge) -> None:
    answer = await searcher.search(essays, "kayak", mode="text", max_tokens=101, document_ids=["c"])
    [cut] = answer["results"]
    assert cut["truncated"]
    assert answer["total_tokens"] == count_tokens(cut["content"]) <= 101


async def test_recent_documents_come_first_when_they_are_asked_for(
    searcher: SearchingCaller, essays: Knowledge
) -> None:
    answer = await searcher.search(essays, "kayak", mode="text", max_tokens=10_000, prioritize_by="recency")
    assert [one["document_id"] for one in answer["results"]] == ["b", "c", "a"]


async def test_a_context_of_unsaid_size_has_4000_tokens_and_without_one_nothing_is_left_out(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    for document_id in ("a", "b", "c"):
        await knowledge.index(long(document_id, sentences=200))
    everything = await searcher.search(knowledge, "kayak", mode="text")
    assert (everything["omitted_count"], len(everything["results"])) == (0, 3)
    assert everything["total_tokens"] > 4_000
    for prioritize_by in ("similarity", "recency", "balanced"):
        some = await searcher.search(knowledge, "kayak", mode="text", prioritize_by=prioritize_by)
        assert some["total_tokens"] <= 4_000
        assert some["results"][-1]["truncated"]
