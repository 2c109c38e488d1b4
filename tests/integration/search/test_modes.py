"""By vectors, by words and by both."""

from typing import Any

import pytest

from kb_search.retrieval import strength
from kb_search.retrieval.fusion import WEIGHTS, QueryShape
from kb_search.retrieval.strength import ModelScale
from kb_shared.mongo import spu_ledger
from kb_shared.mongo.database import Database
from tests.integration.search.conftest import SearchingCaller
from tests.integration.search.knowledge import MODEL, DocumentToIndex, Knowledge, create, relevance

# The vectors of the hash model know nothing of words: only equal texts are near.
NEAR = "how do I row a boat"
NAMED = "the kayak INV-4711 is red"
OTHERS = [f"filler number {n}" for n in range(130)]


def contents(answer: dict[str, Any]) -> list[str]:
    return [result["content"] for result in answer["results"]]


@pytest.fixture
async def library(knowledge: Knowledge) -> Knowledge:
    await knowledge.index(DocumentToIndex("d1", [NEAR, NAMED]))
    await knowledge.index(DocumentToIndex("d2", OTHERS))
    return knowledge


async def test_words_find_what_vectors_do_not_and_the_other_way_round(
    searcher: SearchingCaller, library: Knowledge
) -> None:
    by_words = await searcher.search(library, "kayak", mode="text")
    assert contents(by_words) == [NAMED]
    assert (by_words["total_count"], by_words["total_count_is_exact"]) == (1, True)
    assert contents(await searcher.search(library, NEAR, mode="vector", top_k=1)) == [NEAR]
    assert (await searcher.search(library, "xyzzy", mode="text"))["results"] == []


async def test_a_search_is_hybrid_by_default(searcher: SearchingCaller, library: Knowledge) -> None:
    answer = await searcher.search(library, f"{NEAR} kayak")
    explicit = await searcher.search(library, f"{NEAR} kayak", mode="hybrid")
    assert contents(answer) == contents(explicit)
    assert {NEAR, NAMED} <= set(contents(answer))
    for result in answer["results"]:
        ranks = {leg: result["scores"][leg] is not None for leg in ("vector", "text")}
        assert any(ranks.values())
        assert 0 <= result["scores"]["fused"] <= sum((WEIGHTS[QueryShape.WORDS].vector, WEIGHTS[QueryShape.WORDS].text))


async def test_the_text_leg_weighs_more_for_an_identifier(searcher: SearchingCaller, library: Knowledge) -> None:
    [first, *_] = (await searcher.search(library, "INV-4711"))["results"]
    assert first["content"] == NAMED
    assert first["scores"]["fused"] >= WEIGHTS[QueryShape.IDENTIFIER].text


async def test_a_hit_of_words_alone_has_the_relevance_of_its_vector(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    # More chunks than the vector index is asked for, all nearer than this one.
    texts = sorted((f"filler {n}" for n in range(150)), key=lambda text: relevance("kayak", text), reverse=True)
    farthest = f"kayak {texts[-1]}"
    assert sum(relevance("kayak", text) > relevance("kayak", farthest) for text in texts) >= 0
    await knowledge.index(DocumentToIndex("d", [*texts, farthest]))
    answer = await searcher.search(knowledge, "kayak", top_k=20)
    [hit] = [result for result in answer["results"] if result["content"] == farthest]
    assert hit["scores"]["text"] is not None
    assert hit["relevance"] == pytest.approx(relevance("kayak", farthest), abs=1e-5)


async def test_by_words_alone_nothing_is_embedded_or_charged_and_nothing_has_a_relevance(
    searcher: SearchingCaller, library: Knowledge, search_database: Database
) -> None:
    answer = await searcher.search(library, "kayak", mode="text")
    assert (answer["spu_charged"], answer["timings_ms"]["embed"]) == (0, 0)
    assert [result["relevance"] for result in answer["results"]] == [None]
    assert await spu_ledger.sum_spus(search_database, "acme") == 0
    assert await search_database["embedding_cache"].count_documents({}) == 0


async def test_a_minimum_never_removes_what_the_words_found(searcher: SearchingCaller, library: Knowledge) -> None:
    query = "kayak"
    limit = (relevance(query, NAMED) + 1) / 2
    answer = await searcher.search(library, query, min_score=limit)
    assert contents(answer) == [NAMED]
    assert answer["results"][0]["relevance"] == pytest.approx(relevance(query, NAMED), abs=1e-5)
    assert (answer["total_count"], answer["total_count_is_exact"]) == (1, True)
    assert contents(await searcher.search(library, query, min_score=limit, mode="vector")) == []


async def test_the_knowledge_bases_own_minimum_does_not_remove_what_the_words_found(
    searcher: SearchingCaller, search_database: Database
) -> None:
    strict = await create(search_database, "acme", min_score=0.99)
    await strict.index(DocumentToIndex("d", [NAMED, NEAR]))
    for mode in ("text", "hybrid"):
        assert contents(await searcher.search(strict, "kayak", mode=mode)) == [NAMED]
    assert contents(await searcher.search(strict, "kayak", mode="vector")) == []


async def test_text_hits_beyond_the_first_page_are_counted_and_shown_on_later_pages(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d", [f"kayak {n}" for n in range(130)]))
    pages = [await searcher.search(knowledge, "kayak", min_score=0.999, top_k=20, skip=skip) for skip in (0, 60, 120)]
    assert [len(one["results"]) for one in pages] == [20, 20, 10]
    assert pages[-1]["total_count"] == 130


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_w15_pages_neither_repeat_nor_miss_a_hit_however_deep(
    searcher: SearchingCaller, library: Knowledge, mode: str
) -> None:
    query = {"query": "filler number", "mode": mode}
    found = [await searcher.search(library, **query, skip=skip, top_k=7) for skip in range(0, 70, 7)]
    pages = [content for answer in found for content in contents(answer)]
    assert len(pages) == len(set(pages)) == 70
    whole = [await searcher.search(library, **query, skip=skip, top_k=20) for skip in (0, 20, 40)]
    assert [content for answer in whole for content in contents(answer)] == pages[:60]


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_pages_of_equal_chunks_neither_repeat_nor_miss_one(
    searcher: SearchingCaller, knowledge: Knowledge, mode: str
) -> None:
    await knowledge.index(DocumentToIndex("d", ["the same words"] * 70))
    pages = [
        await searcher.search(knowledge, "the same words", mode=mode, top_k=10, skip=skip) for skip in range(0, 70, 10)
    ]
    assert [result["chunk_index"] for answer in pages for result in answer["results"]] == list(range(70))


async def test_a_document_that_has_the_words_in_two_chunks_is_found_before_one_that_has_some_in_one(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("a", ["a red kayak on lakes", "paddles float on lakes"]))
    await knowledge.index(DocumentToIndex("b", ["a red kayak on land"]))
    await knowledge.index(DocumentToIndex("c", [f"lakes number {n}" for n in range(9)]))
    results = (await searcher.search(knowledge, "red kayak paddles", mode="text"))["results"]
    by_place = {(one["document_id"], one["chunk_index"]): one["scores"] for one in results}
    assert by_place["a", 0]["text"] == by_place["b", 0]["text"], "as the index gave them"
    assert by_place["a", 0]["fused"] > by_place["b", 0]["fused"]


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_pages_of_more_equal_chunks_than_an_index_is_asked_for_show_each_once(
    searcher: SearchingCaller, knowledge: Knowledge, mode: str
) -> None:
    await knowledge.index(DocumentToIndex("d", ["the same words"] * 130))
    skips = (0, 20, 40, 60, 80, 100, 120)
    pages = [await searcher.search(knowledge, "the same words", mode=mode, top_k=20, skip=skip) for skip in skips]
    assert [result["chunk_index"] for answer in pages for result in answer["results"]] == list(range(130))


async def test_copies_take_one_place_and_are_named_whenever_they_were_indexed(
    searcher: SearchingCaller, search_database: Database
) -> None:
    answers = []
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        knowledge = await create(search_database, "acme")
        for document_id in order:
            await knowledge.index(DocumentToIndex(document_id, ["the same words", "others"]))
        answer = await searcher.search(knowledge, "the same words", top_k=6)
        answers.append(
            [
                (one["document_id"], one["chunk_index"], [copy["document_id"] for copy in one["also_in"]])
                for one in answer["results"]
            ]
        )
        assert answer["total_count"] == 2
    assert answers == [[("a", 0, ["b", "c"]), ("a", 1, ["b", "c"])]] * 2


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_copies_leave_room_for_what_says_something_else(
    searcher: SearchingCaller, knowledge: Knowledge, mode: str
) -> None:
    for number in range(6):
        await knowledge.index(DocumentToIndex(f"copy{number}", ["visitors park behind the hall"]))
    await knowledge.index(DocumentToIndex("notice", ["the hall is closed in May"]))
    answer = await searcher.search(knowledge, "visitors park behind the hall", mode=mode, top_k=2)
    assert [one["document_id"] for one in answer["results"]] == ["copy0", "notice"]
    assert len(answer["results"][0]["also_in"]) == 5


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_one_number_falls_from_the_first_result_to_the_last(
    searcher: SearchingCaller, library: Knowledge, mode: str
) -> None:
    results = (await searcher.search(library, "a red kayak", mode=mode, top_k=20, coalesce_neighbors=1))["results"]
    scores = [one["score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[0] <= 1


IDENTIFIERS: list[tuple[str, str, str]] = [
    ("part", "Order seal QX-7701/3 from the depot.", "qx 7701 3"),
    ("account", "Pay into NL91 ABNA 0417 1643 00 by May.", "NL91ABNA0417164300"),
    ("file", "See travel_rules_draft.docx for it.", "travel rules"),
    ("code", "Raise maxOpenFiles on the host.", "max_open_files"),
    ("name", "Ms O\u2019Neill has the key.", "oneill"),
    ("day", "Closed on 2026-05-01 for cleaning.", "1 May 2026"),
    ("amount", "The fee is 2,345.60 a year.", "2.345,60"),
]


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_another_usual_spelling_finds_the_passage_first(
    searcher: SearchingCaller, knowledge: Knowledge, mode: str
) -> None:
    for name, written, _ in IDENTIFIERS:
        await knowledge.index(DocumentToIndex(name, [written]))
    for name, _, query in IDENTIFIERS:
        assert (await searcher.search(knowledge, query, mode=mode))["results"][0]["document_id"] == name, query


async def test_headings_are_searched_by_their_words(searcher: SearchingCaller, library: Knowledge) -> None:
    assert contents(await searcher.search(library, "Title", mode="text", document_ids=["d1"])) == [NEAR, NAMED]


@pytest.mark.parametrize(("analyzer", "found"), [("lucene.standard", 0), ("lucene.english", 1)])
async def test_words_are_those_of_the_analyzer(
    searcher: SearchingCaller, search_database: Database, analyzer: str, found: int
) -> None:
    knowledge = await create(search_database, "acme", text_analyzer=analyzer)
    await knowledge.index(DocumentToIndex("d", ["kayaks were paddling"]))
    answer = await searcher.search(knowledge, "paddle the kayak", mode="text")
    assert len(answer["results"]) == found


async def test_a_query_longer_than_an_index_takes_is_looked_for_by_its_first_words(
    searcher: SearchingCaller, library: Knowledge
) -> None:
    words = " ".join(["kayak", *(f"w{n}" for n in range(1_200))])
    assert contents(await searcher.search(library, words, mode="text")) == [NAMED]
    assert (await searcher.search(library, words[6:] + " kayak", mode="text"))["results"] == []


async def test_a_query_without_words_finds_nothing_by_words(searcher: SearchingCaller, library: Knowledge) -> None:
    assert (await searcher.search(library, "?!", mode="text"))["results"] == []
    assert len((await searcher.search(library, "?!"))["results"]) == 5


@pytest.fixture
def measured_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hash model be one whose noise is known: all texts but equal ones are noise."""
    monkeypatch.setattr(strength, "SCALES", {MODEL: ModelScale(noise=0.8, related=0.85, near=0.9)})


@pytest.mark.usefixtures("measured_model")
@pytest.mark.parametrize("query", ["asdfgh qwertz", "what is the asdfgh", "wo ist der qwertz"])
async def test_noise_finds_nothing(searcher: SearchingCaller, library: Knowledge, query: str) -> None:
    await library.index(DocumentToIndex("d3", ["what the boat is", "wo der Kahn ist"]))
    answer = await searcher.search(library, query)
    assert (answer["results"], answer["total_count"], answer["total_count_is_exact"]) == ([], 0, True)


@pytest.mark.usefixtures("measured_model")
async def test_of_noise_the_matches_of_words_stay_and_a_minimum_of_zero_shows_all(
    searcher: SearchingCaller, library: Knowledge
) -> None:
    assert contents(await searcher.search(library, "asdfgh kayak")) == [NAMED]
    assert len(contents(await searcher.search(library, "asdfgh", min_score=0, top_k=20))) == 20
    assert len(contents(await searcher.search(library, "asdfgh", mode="vector", top_k=20))) == 20


@pytest.mark.usefixtures("measured_model")
async def test_strength_tells_words_and_nearness_and_never_rises(searcher: SearchingCaller, library: Knowledge) -> None:
    await library.index(DocumentToIndex("d3", ["row the boat", "a boat", NEAR]))
    results = (await searcher.search(library, NEAR, top_k=20))["results"]
    assert results[0]["content"] == NEAR
    found = {one["content"]: one["strength"] for one in results}
    assert (found[NEAR], found["row the boat"], found["a boat"]) == ("strong", "fair", "fair")
    ranks = [("weak", "fair", "strong").index(one["strength"]) for one in results]
    assert ranks == sorted(ranks, reverse=True)
    assert all(0 <= one["score"] <= 1 for one in results)
    assert {one["strength"] for one in (await searcher.search(library, "asdfgh", min_score=0))["results"]} == {"weak"}
