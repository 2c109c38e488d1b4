"""Words that every text has are not searched for, unless a query has no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.retrieval.function_words import FUNCTION_WORDS, leave_out_function_words
from kb_search.retrieval.query import SearchQuery
from kb_shared.text.text_normalization import SPELLED


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("What is the notice period of the Meridian contract?", "notice period Meridian contract?"),
        ("what is the asdfgh", "asdfgh"),
        ("Wie viele Tage Urlaub gibt es im Jahr?", "viele Tage Urlaub Jahr?"),
        ("¿Cuál es la capital de Perú?", "capital Perú?"),
        ("où est la gare", "gare"),
    ],
)
def test_a_question_is_searched_for_by_what_it_asks_about(query: str, kept: str) -> None:
    assert leave_out_function_words(query) == kept
    assert SearchQuery(query).words_for_index(SPELLED).text == kept


@pytest.mark.parametrize("query", ["to be or not to be", "who is it?", "the", "", "Urlaub", "INV-2024-0017"])
def test_a_query_without_others_keeps_them(query: str) -> None:
    kept = leave_out_function_words(query)
    assert kept in (query, "or not")


@pytest.mark.parametrize("query", ["IT security", "guidelines of WHO", "DES encryption"])
def test_a_name_in_capitals_is_kept(query: str) -> None:
    assert {word for word in query.split() if word.isupper()} <= set(leave_out_function_words(query).split())


def test_in_a_query_of_capitals_they_mean_nothing() -> None:
    assert leave_out_function_words("WHAT IS THE PRICE") == "PRICE"


def test_words_that_are_things_in_another_language_are_kept() -> None:
    assert FUNCTION_WORDS.isdisjoint(
        {"die", "man", "or", "pour", "van", "hat", "can", "will", "not", "us", "son", "dos"}
    )


@given(st.text(max_size=80))
def test_nothing_but_function_words_is_left_out(query: str) -> None:
    kept = leave_out_function_words(query)
    assert kept == query or set(kept.split()) <= set(query.split())
    assert bool(kept.strip()) == bool(query.strip())
