"""Two rankings become one."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_search.retrieval.fusion import TEXT_ONLY_WEIGHTS, WEIGHTS, K, QueryShape, Weights, classify_query, fuse

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


def test_it_is_reciprocal_rank_fusion() -> None:
    [first, second, third] = fuse({"a": 0.9, "b": 0.8}, {"b": 7.0, "c": 3.0}, Weights(vector=1.0, text=0.5))
    assert [first.chunk_id, second.chunk_id, third.chunk_id] == ["b", "a", "c"]
    expected = [1 / (K + 2) + 0.5 / (K + 1), 1 / (K + 1), 0.5 / (K + 2)]
    assert [first.fused, second.fused, third.fused] == pytest.approx(expected)
    assert [(one.vector_rank, one.text_rank) for one in (first, second, third)] == [(2, 1), (1, None), (None, 2)]


def test_equal_scores_share_a_rank_and_so_do_those_that_rounding_parts() -> None:
    fused = fuse({"a": 0.5, "b": 0.5 + 1e-7, "c": 0.4}, {}, EQUAL)
    assert [one.fused for one in fused] == [pytest.approx(1 / (K + 1))] * 2 + [pytest.approx(1 / (K + 3))]
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
