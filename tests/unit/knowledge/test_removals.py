import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_knowledge.sources.removals import Removals, removals


@pytest.mark.parametrize(
    ("known", "gone", "withheld"),
    [(100, 30, 0), (100, 31, 31), (10, 10, 0), (20, 10, 0), (20, 11, 11), (0, 0, 0), (200, 60, 0), (200, 100, 100)],
)
def test_a_run_deletes_at_most_three_tenths_or_ten_entries(known: int, gone: int, withheld: int) -> None:
    keys = [f"key-{number}" for number in range(known)]
    decided = removals(keys, keys[gone:])
    assert decided.withheld == withheld
    assert len(decided.keys) == (0 if withheld else gone)


def test_entries_of_pages_that_moved_go_however_many_they_are() -> None:
    keys = [f"key-{number}" for number in range(100)]
    assert len(removals(keys, keys[60:], moved=keys[:60]).keys) == 60
    assert removals(keys, keys[60:], moved=keys[:20]) == Removals(tuple(sorted(keys[:20])), withheld=40)


@given(st.sets(st.integers(0, 50)), st.sets(st.integers(0, 50)), st.integers(0, 50))
def test_a_run_that_is_killed_while_it_deletes_may_finish(known: set[int], seen: set[int], deleted: int) -> None:
    """Deleting some of what may be deleted never makes the rest too much."""
    first = removals([str(each) for each in known], [str(each) for each in seen])
    left = {str(each) for each in known} - set(first.keys[:deleted])
    assert removals(left, [str(each) for each in seen]).keys == first.keys[deleted:]
