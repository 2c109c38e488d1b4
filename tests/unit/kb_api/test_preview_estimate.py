import random

from hypothesis import given
from hypothesis import strategies as st

from kb_api.preview_estimate import CountedDocument, estimate_documents

COUNTED = st.lists(st.integers(0, 50).map(lambda n: CountedDocument(n, n, n // 2, n * 3, n * 4)), max_size=30)


@given(COUNTED)
def test_all_documents_are_added_up_without_an_error(counted: list[CountedDocument]) -> None:
    estimate = estimate_documents(counted, len(counted))
    assert estimate.chunks == sum(each.chunks for each in counted)
    assert estimate.unpaid == sum(each.unpaid for each in counted)
    assert (estimate.documents, estimate.chunks_error, estimate.unpaid_error) == (len(counted), 0, 0)


@given(COUNTED.filter(bool), st.integers(1, 10_000))
def test_no_estimate_is_below_what_was_counted(counted: list[CountedDocument], more: int) -> None:
    estimate = estimate_documents(counted, len(counted) + more)
    assert estimate.chunks >= sum(each.chunks for each in counted)
    assert estimate.unpaid <= estimate.embeddings


def test_documents_that_are_too_large_are_not_among_those_that_are_indexed() -> None:
    counted = [CountedDocument(5, 5, 5, 0, 0), CountedDocument(0, 0, 0, 0, 0, is_too_large=True)]
    estimate = estimate_documents(counted, 100)
    assert (estimate.documents, estimate.too_large, estimate.chunks) == (50, 50, 250)


def test_the_truth_lies_within_the_error_of_nineteen_samples_in_twenty() -> None:
    dice = random.Random(1)
    every = [CountedDocument(n, n, n, 0, 0) for n in (dice.randint(1, 40) for _ in range(1_000))]
    truth = sum(each.chunks for each in every)
    estimates = [estimate_documents(dice.sample(every, 100), len(every)) for _ in range(200)]
    within = sum(abs(each.chunks - truth) <= each.chunks_error for each in estimates)
    assert 180 <= within < 200
