"""What $search scores: Lucene's BM25, and how clauses put scores together."""

import math
from typing import Any

import pytest

from tests.conformance.atlas_search.deployment import (
    Collection,
    Document,
    create_ready_texts,
    eventually,
    mappings,
    run,
    search_stage,
)
from tests.conformance.atlas_search.texts import TEXTS, best_first, documents, lucene_scores

WORDS = {number: text.split() for number, text in enumerate(TEXTS)}
TITLES = {one["_id"]: one["title"].split() for one in documents() if "title" in one}
KIND_IS_BIRD = {"equals": {"path": "kind", "value": "bird"}}


def inverse_document_frequency(word: str) -> float:
    having = sum(word in words for words in WORDS.values())
    return math.log(1 + (len(WORDS) - having + 0.5) / (having + 0.5))


def saturated(frequency: int, number: int) -> float:
    mean_length = sum(map(len, WORDS.values())) / len(WORDS)
    return frequency / (frequency + 1.2 * (0.25 + 0.75 * len(WORDS[number]) / mean_length))


def text(query: str, path: Any = "text", **more: Any) -> Document:
    return {"text": {"query": query, "path": path, **more}}


async def scored(texts: Collection, operator: Document) -> list[tuple[int, float]]:
    project = {"$project": {"score": {"$meta": "searchScore"}}}
    return [(hit["_id"], hit["score"]) for hit in await run(texts, search_stage(operator), project)]


@pytest.mark.parametrize("query", ["quick", "brown", "the", "quick brown fox", "dog the the"])
async def test_hits_come_best_first_with_lucenes_bm25_scores(texts: Collection, query: str) -> None:
    hits = await scored(texts, text(query))
    expected = lucene_scores(WORDS, *query.split())
    assert dict(hits) == pytest.approx(expected, rel=1e-5)
    assert [found for found, _ in hits] == best_first(expected)


async def test_documents_without_a_field_do_not_count_in_its_statistics(texts: Collection) -> None:
    assert dict(await scored(texts, text("quick", "title"))) == pytest.approx(lucene_scores(TITLES, "quick"), rel=1e-5)


async def test_scores_at_several_paths_are_added_up(texts: Collection) -> None:
    by_text, by_title = lucene_scores(WORDS, "quick"), lucene_scores(TITLES, "quick")
    expected = {key: by_text.get(key, 0) + by_title.get(key, 0) for key in by_text | by_title}
    assert dict(await scored(texts, text("quick", ["text", "title"]))) == pytest.approx(expected, rel=1e-5)


async def test_a_phrase_scores_as_often_as_it_occurs_with_the_rarity_of_its_words(texts: Collection) -> None:
    hits = dict(await scored(texts, {"phrase": {"query": "quick quick", "path": "text"}}))
    assert hits == pytest.approx({5: 2 * inverse_document_frequency("quick") * saturated(2, 5)}, rel=1e-5)


async def test_a_looser_match_of_a_phrase_scores_less(texts: Collection) -> None:
    near = dict(await scored(texts, {"phrase": {"query": "quick brown", "path": "text", "slop": 3}}))[0]
    far = dict(await scored(texts, {"phrase": {"query": "quick fox", "path": "text", "slop": 3}}))[0]
    exact = dict(await scored(texts, {"phrase": {"query": "quick brown", "path": "text"}}))[0]
    assert near == pytest.approx(exact, rel=1e-5)
    assert far < near


async def test_a_word_like_the_query_counts_the_less_the_more_it_differs(texts: Collection) -> None:
    hits = dict(await scored(texts, text("foxe", fuzzy={"maxEdits": 1})))
    # One edit of three or four letters; all words count as rare as the commonest of them.
    expected = {
        0: 2 / 3 * inverse_document_frequency("fox") * saturated(1, 0),
        3: 2 / 3 * inverse_document_frequency("fox") * saturated(1, 3),
        4: 3 / 4 * inverse_document_frequency("fox") * saturated(1, 4),
    }
    assert hits == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "operator",
    [
        KIND_IS_BIRD,
        {"in": {"path": "kind", "value": ["bird"]}},
        {"range": {"path": "n", "gte": 0}},
        {"exists": {"path": "title"}},
    ],
)
async def test_clauses_on_values_other_than_text_score_one(texts: Collection, operator: Document) -> None:
    assert {score for _, score in await scored(texts, operator)} == {1.0}


async def test_must_and_should_add_to_the_score_and_filter_does_not(texts: Collection) -> None:
    quick, brown = lucene_scores(WORDS, "quick"), lucene_scores(WORDS, "brown")
    compound = {
        "must": [text("quick")],
        "should": [text("brown")],
        "filter": [{"exists": {"path": "text"}}],
        "mustNot": [text("answer")],
    }
    assert dict(await scored(texts, {"compound": compound})) == pytest.approx(
        {0: quick[0] + brown[0], 5: quick[5]}, rel=1e-5
    )


async def test_a_filter_alone_scores_zero(texts: Collection) -> None:
    assert sorted(await scored(texts, {"compound": {"filter": [KIND_IS_BIRD]}})) == [(1, 0.0), (4, 0.0)]


async def test_a_boost_multiplies_and_a_constant_replaces_the_score(texts: Collection) -> None:
    expected = lucene_scores(WORDS, "quick")
    boosted = dict(await scored(texts, text("quick", score={"boost": {"value": 3}})))
    assert boosted == pytest.approx({key: 3 * score for key, score in expected.items()}, rel=1e-5)
    constant = dict(await scored(texts, text("quick", score={"constant": {"value": 5}})))
    assert constant == dict.fromkeys(expected, 5.0)


async def test_norms_that_are_left_out_make_all_texts_equally_long(things: Collection) -> None:
    await things.insert_many([{"_id": 1, "s": "word"}, {"_id": 2, "s": "word and a lot of other words"}])
    await create_ready_texts(things, mappings({"s": {"type": "string", "norms": "omit"}}))

    async def equal() -> bool:
        scores = [score for _, score in await scored(things, text("word", "s"))]
        return len(scores) == 2 and scores[0] == scores[1]

    await eventually(equal)
