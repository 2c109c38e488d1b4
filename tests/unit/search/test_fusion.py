"""Two rankings become one."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_search.retrieval.fusion import (
    TEXT_ONLY_WEIGHTS,
    WEIGHTS,
    QueryShape,
    Weights,
    best_possible,
    classify_query,
    fuse,
)

EQUAL = Weights(1.0, 1.0)
ids = st.sampled_from([f"d:{n}" for n in range(12)])
# Few values, so that there are ties.
scores = st.dictionaries(ids, st.integers(0, 5).map(lambda n: n / 5), max_size=12)
weights = st.builds(Weights, st.floats(0.1, 1), st.floats(0.1, 1))


def order_of(vector: Mapping[str, float], text: Mapping[str, float], weights: Weights = EQUAL) -> list[str]:
    return [candidate.chunk_id for candidate in fuse(vector, text, weights)]


@given(scores, scores, weights, st.randoms())
def test_all_that_was_found_is_ranked_once_whatever_order_it_comes_in(
    vector: dict[str, float], text: dict[str, float], weights: Weights, random: object
) -> None:
    fused = fuse(vector, text, weights)
    assert sorted(one.chunk_id for one in fused) == sorted(vector.keys() | text.keys())
    assert [one.fused for one in fused] == sorted((one.fused for one in fused), reverse=True)
    assert all((one.vector, one.text) == (vector.get(one.chunk_id), text.get(one.chunk_id)) for one in fused)
    shuffled = [list(found.items()) for found in (vector, text)]
    for found in shuffled:
        random.shuffle(found)  # type: ignore[attr-defined]  # a random.Random
    assert fuse(dict(shuffled[0]), dict(shuffled[1]), weights) == fused


@given(scores, scores, weights)
def test_a_chunk_that_is_better_in_both_legs_is_better_in_the_fusion(
    vector: dict[str, float], text: dict[str, float], weights: Weights
) -> None:
    fused = {one.chunk_id: one.fused for one in fuse(vector, text, weights)}
    for one in vector.keys() & text.keys():
        for other in vector.keys() & text.keys():
            if vector[one] > vector[other] and text[one] > text[other]:
                assert fused[one] > fused[other]


@given(scores, weights)
def test_one_leg_alone_keeps_its_order(found: dict[str, float], weights: Weights) -> None:
    expected = sorted(found, key=lambda chunk_id: (-found[chunk_id], chunk_id))
    assert order_of(found, {}, weights) == order_of({}, found, weights) == expected


def full_leg(scores: Mapping[str, float], *, others: int = 100) -> dict[str, float]:
    """Return vector scores of chunks before those of a leg that is full of unrelated ones."""
    return {**scores, **{f"other:{n}": 0.6 - n / 10_000 for n in range(others)}}


def test_a_clear_winner_by_words_is_among_the_first_although_the_list_of_the_vectors_ends_before_it() -> None:
    near = {f"near:{n}": 0.7 - n / 1_000 for n in range(101)}
    words = {"d:tape": 8.8} | {f"near:{n}": 5.9 - n / 10 for n in range(59)}
    assert "d:tape" in order_of(near, words, WEIGHTS[QueryShape.WORDS])[:5]


def test_a_slightly_better_match_by_words_does_not_beat_a_much_nearer_one() -> None:
    near = full_leg({"d:near": 0.9, "d:words": 0.65})
    assert order_of(near, {"d:near": 8.0, "d:words": 8.4}, WEIGHTS[QueryShape.WORDS])[0] == "d:near"


def test_an_equal_chunk_that_is_first_by_words_has_all_that_is_possible() -> None:
    for query in ("row a boat", "INV-4711", "what does E4711 mean"):
        weights = WEIGHTS[classify_query(query)]
        [first, *_] = fuse(full_leg({"d:0": 1.0}), {"d:0": 7.0, "d:1": 3.0}, weights)
        assert first.fused == pytest.approx(best_possible(query, with_vectors=True, with_text=True))


def test_a_chunk_has_of_words_its_part_of_the_best_and_of_vectors_its_part_of_the_way_to_an_equal_one() -> None:
    first, second, third, *_ = fuse(full_leg({"a": 0.75}, others=99), {"b": 8.0, "c": 2.0}, Weights(1.0, 0.5))[:3]
    # The last of the hundred has 0.5902.
    assert (first.chunk_id, second.chunk_id) == ("b", "a")
    assert [first.fused, second.fused] == pytest.approx([0.5, (0.75 - 0.5902) / (1 - 0.5902)])
    assert third.chunk_id == "c"
    assert third.fused == pytest.approx(0.125)
    assert [(one.vector_rank, one.text_rank) for one in (first, second, third)] == [(None, 1), (1, None), (None, 2)]


def test_the_only_chunk_is_not_taken_for_an_unrelated_one() -> None:
    [only] = fuse({"a": 0.9}, {}, Weights(1.0, 1.0))
    assert only.fused > 0.7


def test_a_chunk_more_or_less_in_the_leg_hardly_changes_the_scores() -> None:
    scores = full_leg({"a": 0.8}, others=99)
    [full, *_] = fuse(scores, {}, EQUAL)
    [short, *_] = fuse(dict([*scores.items()][:-1]), {}, EQUAL)
    assert full.fused == pytest.approx(short.fused, abs=0.002)


@given(st.integers(0, 100), st.integers(101, 400))
def test_more_chunks_in_the_vector_leg_do_not_change_the_scores_of_the_first(first: int, limit: int) -> None:
    every = {f"d:{n}": 0.95 - n / 1_000 for n in range(400)}
    hundred, more = (
        {one.chunk_id: one.fused for one in fuse(dict([*every.items()][:size]), {}, EQUAL)} for size in (100, limit)
    )
    assert hundred.get(f"d:{first}", 0.0) == pytest.approx(more[f"d:{first}"])


def test_equal_scores_share_a_rank_and_so_do_those_that_rounding_parts() -> None:
    fused = fuse({"a": 0.5, "b": 0.5 + 1e-7, "c": 0.4}, {}, EQUAL)
    assert fused[0].fused == fused[1].fused > fused[2].fused
    assert [one.vector_rank for one in fused] == [1, 1, 3]


@pytest.mark.parametrize(
    "query",
    ["INV-2024-0017", "ISO 9001", "kb_shared.mongo.vectors", "getUserById", "v1.2.3", "10.0.0.1", '"E4711".', "AB-CD"],
)
def test_the_text_leg_weighs_more_for_identifiers(query: str) -> None:
    assert classify_query(query) is QueryShape.IDENTIFIER


@pytest.mark.parametrize("query", ["what does error E4711 mean", "reset the SSL_CERT variable", "offers of 2024"])
def test_a_query_of_identifiers_and_words_has_the_mixed_shape(query: str) -> None:
    assert classify_query(query) is QueryShape.MIXED


@pytest.mark.parametrize(
    "query",
    ["How can I retry a call?", "HOW CAN I RETRY?", "Grüße aus München", "東京 の 天気", "well-known terms", "", "?!"],
)
def test_a_query_without_identifiers_has_the_shape_of_words(query: str) -> None:
    assert classify_query(query) is QueryShape.WORDS


def test_the_more_a_query_names_things_the_less_vectors_weigh() -> None:
    shares = [
        WEIGHTS[shape].vector / WEIGHTS[shape].text
        for shape in (QueryShape.WORDS, QueryShape.MIXED, QueryShape.IDENTIFIER)
    ]
    assert shares == sorted(shares, reverse=True)
    assert WEIGHTS.keys() == TEXT_ONLY_WEIGHTS.keys() == set(QueryShape)


@given(st.text(max_size=60))
@example("_" * 8_000 + "!")
@example("a_" * 4_000 + "-")
@example("Aa" * 4_000 + "-")
def test_every_query_has_a_shape_however_it_was_made_to_be_slow(query: str) -> None:
    assert classify_query(query) in QueryShape
