"""What the chunks of a document say for each other."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.retrieval.document_support import add_document_support
from kb_search.retrieval.fusion import TEXT_ONLY_WEIGHTS, QueryShape, Weights, fuse
from kb_shared.mongo.vectors import document_of

SHARE = TEXT_ONLY_WEIGHTS[QueryShape.WORDS].support
ids = st.builds("{}:{:024x}:0".format, st.sampled_from("abcd"), st.integers(0, 9))
found = st.dictionaries(ids, st.integers(0, 400).map(lambda n: n / 8), max_size=20)
shares = st.floats(0, 0.5)


def chunk(document_id: str, number: int = 0) -> str:
    return f"{document_id}:{number:024x}:0"


def ranked(text: Mapping[str, float], support: float = SHARE) -> list[str]:
    return [one.chunk_id for one in fuse({}, text, Weights(1.0, 1.0, support))]


def test_a_document_that_has_the_words_in_two_chunks_comes_before_one_that_has_some_in_one() -> None:
    text = {chunk("some"): 7.1, chunk("all", 1): 7.0, chunk("all", 2): 6.0}
    assert [document_of(one) for one in ranked(text)] == ["all", "some", "all"]
    assert [document_of(one) for one in ranked(text, support=0)] == ["some", "all", "all"]


def test_the_support_of_each_further_chunk_is_half_of_what_it_would_be_of_the_one_before() -> None:
    scores = {chunk("d", 1): 10.0, chunk("d", 2): 8.0, chunk("d", 3): 6.0, chunk("d", 4): 4.0, chunk("other"): 9.0}
    support = 0.1 * (8 + 6 / 2 + 4 / 4)
    expected = {one: score + (0 if document_of(one) == "other" else support) for one, score in scores.items()}
    assert add_document_support(scores, 0.1) == pytest.approx(expected)


@given(st.integers(1, 500), st.floats(0.1, 50))
def test_a_document_of_many_weak_chunks_does_not_beat_a_strong_one_by_bulk(many: int, weak: float) -> None:
    strong = weak * (1 + 2 * SHARE) + 0.001
    text = {chunk("bulk", number): weak for number in range(many)} | {chunk("strong"): strong}
    assert document_of(ranked(text)[0]) == "strong"


@given(found, shares)
def test_support_is_less_than_twice_the_share_of_the_second_best(scores: dict[str, float], share: float) -> None:
    for chunk_id, score in add_document_support(scores, share).items():
        own = sorted(other for one, other in scores.items() if document_of(one) == document_of(chunk_id))
        second = own[-2] if len(own) > 1 else 0
        assert scores[chunk_id] <= score <= scores[chunk_id] + 2 * share * second + 1e-9


@given(st.dictionaries(st.sampled_from("abcdefgh").map(chunk), st.floats(0, 50)))
def test_where_each_document_has_one_chunk_the_ranking_is_what_it_was(scores: dict[str, float]) -> None:
    assert add_document_support(scores, SHARE) == scores
    assert ranked(scores) == ranked(scores, support=0)


@given(found, shares)
def test_chunks_of_one_document_keep_their_order(scores: dict[str, float], share: float) -> None:
    ranking = ranked(scores, share)
    for document_id in {document_of(one) for one in scores}:
        of_it = [one for one in ranking if document_of(one) == document_id]
        assert of_it == sorted(of_it, key=lambda one: (-scores[one], one))


@given(found, shares, st.randoms())
def test_the_order_in_which_hits_are_listed_makes_no_difference(
    scores: dict[str, float], share: float, random: object
) -> None:
    listed = list(scores.items())
    random.shuffle(listed)  # type: ignore[attr-defined]  # a random.Random
    assert add_document_support(dict(listed), share) == add_document_support(scores, share)


@given(found, found)
def test_reported_scores_are_those_of_the_indexes(vector: dict[str, float], text: dict[str, float]) -> None:
    for one in fuse(vector, text, Weights(1.0, 1.0, SHARE)):
        assert (one.vector, one.text) == (vector.get(one.chunk_id), text.get(one.chunk_id))


def test_support_of_a_document_does_not_count_for_a_query_for_an_identifier() -> None:
    assert TEXT_ONLY_WEIGHTS[QueryShape.IDENTIFIER].support == 0
