from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kb_shared.embedding.sub_batches import MAX_CHARACTERS, MAX_TEXTS, sub_batches

SIZES = st.lists(st.integers(min_value=1, max_value=MAX_CHARACTERS + 10), max_size=20) | st.lists(
    st.just(1), max_size=3 * MAX_TEXTS + 1
)


@given(SIZES)
def test_sub_batches_hold_all_texts_once_in_order_within_the_limits(sizes: list[int]) -> None:
    texts = {str(position): "x" * size for position, size in enumerate(sizes)}

    portions = list(sub_batches(texts.items()))

    assert [item for portion in portions for item in portion.items()] == list(texts.items())
    for portion in portions:
        assert 1 <= len(portion) <= MAX_TEXTS
        assert len(portion) == 1 or sum(map(len, portion.values())) <= MAX_CHARACTERS


@given(SIZES)
def test_no_request_is_made_that_the_one_before_had_room_for(sizes: list[int]) -> None:
    portions = list(sub_batches((str(position), "x" * size) for position, size in enumerate(sizes)))

    for earlier, later in pairwise(portions):
        first = len(next(iter(later.values())))
        assert len(earlier) == MAX_TEXTS or sum(map(len, earlier.values())) + first > MAX_CHARACTERS
