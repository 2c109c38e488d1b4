import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.indexed_corpus import CorpusDocument
from benchmarks.retrieval_quality.compare import difference
from benchmarks.retrieval_quality.identifiers import identifier_queries
from benchmarks.retrieval_quality.measures import measure

DOCUMENTS = [f"d{number}" for number in range(20)]
RANKINGS = st.permutations(DOCUMENTS)
JUDGEMENTS = st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([1.0, 2.0]), min_size=1)


@given(RANKINGS, JUDGEMENTS)
def test_every_measure_lies_between_nothing_and_everything(ranking: list[str], relevant: dict[str, float]) -> None:
    measured = measure(ranking, relevant)
    for value in (measured.ndcg_at_10, measured.recall_at_10, measured.mrr):
        assert 0 <= value <= 1 + 1e-9


@given(JUDGEMENTS)
def test_the_best_ranking_there_is_has_an_ndcg_of_one(relevant: dict[str, float]) -> None:
    best = sorted(DOCUMENTS, key=lambda doc_id: -relevant.get(doc_id, 0))
    assert measure(best, relevant).ndcg_at_10 == pytest.approx(1)
    assert measure(best, relevant).mrr == 1


@given(RANKINGS, JUDGEMENTS, st.integers(0, 18))
def test_a_relevant_document_further_up_is_never_worse(
    ranking: list[str], relevant: dict[str, float], position: int
) -> None:
    above, below = ranking[position], ranking[position + 1]
    if relevant.get(below, 0) > relevant.get(above, 0):
        swapped = [*ranking[:position], below, above, *ranking[position + 2 :]]
        assert measure(swapped, relevant).ndcg_at_10 >= measure(ranking, relevant).ndcg_at_10


def test_a_hand_made_example() -> None:
    measured = measure(["x", "a", "y", "b"], {"a": 1, "b": 1, "c": 1})
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert measured.ndcg_at_10 == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert measured.recall_at_10 == pytest.approx(2 / 3)
    assert measured.mrr == 1 / 2


def test_hits_after_the_tenth_do_not_count() -> None:
    assert measure([*DOCUMENTS[:10], "a"], {"a": 1}).mrr == 0


def test_an_improvement_of_every_query_is_no_luck_and_noise_is() -> None:
    dice = random.Random(1)
    before = [dice.random() / 2 for _ in range(200)]
    better = difference(before, [value + 0.1 for value in before])
    assert better.low > 0
    assert better.mean == pytest.approx(0.1)
    noise = difference(before, [before[(n + 1) % 200] for n in range(200)])
    assert noise.low < 0 < noise.high


def test_identifiers_are_asked_for_with_just_the_documents_that_hold_them() -> None:
    documents = [
        CorpusDocument("one", "", "The IL-17F gene, and 42 others. See v2.0.1."),
        CorpusDocument("two", "IL-17F again", "covid"),
        CorpusDocument("three", "", "xIL-17F is another"),
    ]
    assert {query.text: set(query.relevant) for query in identifier_queries(documents, 10)} == {
        "IL-17F": {"one", "two"},
        "v2.0.1": {"one"},
        "xIL-17F": {"three"},
    }
