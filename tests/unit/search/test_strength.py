"""How strong a result is follows from its words and its nearness, and never rises from one to the next."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.api.search import Strength
from kb_search.retrieval.strength import SCALES, ModelScale, WordShare, judge, never_rising

MINILM = SCALES["all-MiniLM-L6-v2"]
ORDER = ("weak", "fair", "strong")
strengths = st.lists(st.sampled_from(get_args(Strength)), max_size=12)
shares = st.floats(0, 1)
relevances = st.floats(0, 1)


def judged(share: float, relevance: float | None, *, scale: ModelScale | None = MINILM, words: int = 5) -> Strength:
    return judge(share, words=words, is_identifier=False, relevance=relevance, scale=scale, rank=1)


@given(strengths)
def test_it_never_rises_and_claims_no_more_than_each_passage_does(each: list[Strength]) -> None:
    falling = never_rising(each)
    ranks = [ORDER.index(one) for one in falling]
    assert ranks == sorted(ranks, reverse=True)
    assert all(rank <= ORDER.index(one) for rank, one in zip(ranks, each, strict=True))
    assert falling[:1] == each[:1]


@given(shares, shares, relevances, relevances, st.integers(1, 8))
def test_more_words_and_more_nearness_are_never_weaker(
    share: float, other_share: float, relevance: float, other: float, words: int
) -> None:
    less = judged(min(share, other_share), min(relevance, other), words=words)
    more = judged(max(share, other_share), max(relevance, other), words=words)
    assert ORDER.index(less) <= ORDER.index(more)


@given(relevances)
def test_without_words_nothing_is_strong(relevance: float) -> None:
    assert judged(0.0, relevance) != "strong"


@pytest.mark.parametrize(
    ("share", "relevance", "strength"),
    [(1.0, 0.6, "strong"), (0.6, 0.85, "strong"), (0.6, 0.6, "fair"), (0.0, 0.85, "fair"), (0.3, 0.7, "weak")],
)
def test_words_or_nearness_alone_make_a_result_fair_and_both_strong(
    share: float, relevance: float, strength: Strength
) -> None:
    assert judged(share, relevance) == strength


def test_of_a_model_that_was_not_measured_the_cosine_tells_nothing() -> None:
    assert judged(0.0, 0.95, scale=None) == "weak"
    assert judged(0.2, 0.95, scale=None) == "fair", "it has some of the words and is the first by vectors"
    assert judged(1.0, 0.1, scale=None) == judged(1.0, None) == "strong"


def test_one_or_two_words_alone_are_not_strong_but_an_identifier_is() -> None:
    assert judged(1.0, 0.5, words=2) == "fair"
    assert judged(1.0, 0.75, words=2) == "strong"
    assert judge(1.0, words=1, is_identifier=True, relevance=0.4, scale=MINILM, rank=None) == "strong"


@pytest.mark.parametrize(
    ("query", "text", "share"),
    [
        ("What is the notice period?", "Notices: two periods.", 1.0),
        ("Where is the kayak hall", "The hall is red.", 0.5),
        ("sealing tape", "asdf", 0.0),
        ("invoice KX-77/31", "Invoice kx7731 is paid.", 1.0),
        ("the", "the", 0.0),
    ],
)
def test_words_are_compared_as_the_text_index_compares_them(query: str, text: str, share: float) -> None:
    assert WordShare(query).share_in([text], analyzer="lucene.english", has_spellings=True) == pytest.approx(share)


def test_of_what_is_too_long_to_be_read_nothing_is_claimed() -> None:
    words = WordShare("kayak")
    assert words.share_in(["filler " * 10_000, "kayak"], analyzer="lucene.english", has_spellings=False) == 0
    assert words.share_in(["kayak"], analyzer="lucene.english", has_spellings=False) == 0


def test_scales_are_in_order() -> None:
    for scale in SCALES.values():
        assert 0.5 < scale.noise < scale.related < scale.near < 1
