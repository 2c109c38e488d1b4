"""Which passages fit into a context, and where one is cut."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_search.retrieval.context_budget import (
    CUT_ABOVE_TOKENS,
    BudgetedPassage,
    FittedContext,
    PrioritizeBy,
    fit_passages,
)
from kb_shared.text.tokens import count_tokens

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SENTENCE = "One two three four five six seven eight nine. "


def passage(text: str, *, relevance: float = 0.5, age: timedelta = timedelta(0)) -> BudgetedPassage:
    return BudgetedPassage(text, count_tokens(text), relevance, NOW - age)


def fitted(*passages: BudgetedPassage, max_tokens: int, prioritize_by: PrioritizeBy = "similarity") -> FittedContext:
    return fit_passages(passages, max_tokens=max_tokens, prioritize_by=prioritize_by, now=NOW)


def positions(result: FittedContext) -> list[int]:
    return [kept.position for kept in result.kept]


texts = st.text(alphabet=st.sampled_from("abc .!?\n。東é"), max_size=60).map(lambda piece: (piece + " ") * 8)
passages = st.builds(
    passage, texts, relevance=st.floats(0, 1), age=st.timedeltas(timedelta(days=-5), timedelta(days=900))
)


@given(st.lists(passages, max_size=6), st.integers(0, 700), st.sampled_from(["similarity", "recency", "balanced"]))
@example([passage(SENTENCE * 40)], 150, "similarity")
def test_kept_passages_fit_the_budget_and_the_counts_add_up(
    given_passages: list[BudgetedPassage], max_tokens: int, prioritize_by: PrioritizeBy
) -> None:
    result = fitted(*given_passages, max_tokens=max_tokens, prioritize_by=prioritize_by)
    assert result.total_tokens == sum(count_tokens(kept.text) for kept in result.kept) <= max_tokens
    assert result.omitted_count == len(given_passages) - len(result.kept)
    assert len(set(positions(result))) == len(result.kept)
    for kept in result.kept:
        whole = given_passages[kept.position].text
        assert whole.startswith(kept.text)
        assert kept.truncated == (kept.text != whole)
    assert not any(kept.truncated for kept in result.kept[:-1])


def test_a_passage_is_cut_after_its_last_sentence_that_fits() -> None:
    result = fitted(passage(SENTENCE * 40), max_tokens=155)
    [kept] = result.kept
    assert kept.truncated
    assert kept.text == (SENTENCE * 15).rstrip()


def test_a_passage_of_one_sentence_is_cut_after_a_word() -> None:
    [kept] = fitted(passage("word " * 400), max_tokens=150).kept
    assert kept.truncated
    assert kept.text.endswith("word")
    assert 140 <= kept.tokens <= 150


def test_a_passage_without_spaces_is_cut_between_characters() -> None:
    [kept] = fitted(passage("東京都" * 200), max_tokens=150).kept
    assert kept.truncated
    assert kept.text


@pytest.mark.parametrize(("left", "kept"), [(CUT_ABOVE_TOKENS, 1), (CUT_ABOVE_TOKENS + 1, 2)])
def test_it_is_cut_only_when_enough_is_left(left: int, kept: int) -> None:
    first, second = passage(SENTENCE), passage(SENTENCE * 40)
    assert len(fitted(first, second, max_tokens=first.tokens + left).kept) == kept


def test_nothing_comes_after_the_first_that_does_not_fit() -> None:
    result = fitted(passage("short"), passage(SENTENCE * 40), passage("tiny"), max_tokens=50)
    assert (positions(result), result.omitted_count) == ([0], 2)


def test_priorities_order_what_is_kept() -> None:
    old_and_near = passage("a", relevance=0.9, age=timedelta(days=400))
    new_and_far = passage("b", relevance=0.3, age=timedelta(days=1))
    middle = passage("c", relevance=0.8, age=timedelta(days=30))
    several = (old_and_near, new_and_far, middle)
    assert positions(fitted(*several, max_tokens=100)) == [0, 1, 2]
    assert positions(fitted(*several, max_tokens=100, prioritize_by="recency")) == [1, 2, 0]
    assert positions(fitted(*several, max_tokens=100, prioritize_by="balanced")) == [2, 0, 1]


def test_after_a_year_nothing_is_recent_any_more() -> None:
    old, older = (passage(text, age=timedelta(days=days)) for text, days in (("a", 366), ("b", 5_000)))
    assert positions(fitted(older, old, max_tokens=100, prioritize_by="balanced")) == [0, 1]


@pytest.mark.parametrize("blank", ["\n", " \n", "\r\n"])
def test_a_passage_that_begins_with_thousands_of_blank_lines_is_not_cut_to_blank_lines(blank: str) -> None:
    assert fitted(passage(blank * 8_000 + "word " * 400), max_tokens=150).kept == []
