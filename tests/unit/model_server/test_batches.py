from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kb_local.model_server.text_model import PIECES_AT_ONCE, batches

LENGTHS = st.lists(st.integers(1, 600), max_size=60)


@given(LENGTHS)
def test_each_text_is_in_one_batch_and_a_batch_of_several_is_small_with_its_padding(lengths: list[int]) -> None:
    found = list(batches([[0] * length for length in lengths]))
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= PIECES_AT_ONCE


@given(LENGTHS)
def test_no_batch_could_have_been_joined_to_the_next(lengths: list[int]) -> None:
    found = list(batches([[0] * length for length in lengths]))
    for batch, following in pairwise(found):
        assert (len(batch) + 1) * lengths[following[0]] > PIECES_AT_ONCE
