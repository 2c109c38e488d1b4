from hypothesis import given
from hypothesis import strategies as st

from kb_shared.concurrency.adaptive_limit import AdaptiveLimit

MOST = 32
SHARPEST = 0.125

ends = st.one_of(st.none(), st.floats(0, 1_000))
"""Duration of work; None if it was given up."""


def limit(*, first: int = 4, doubling: bool = True) -> AdaptiveLimit:
    return AdaptiveLimit(first=first, most=MOST, aim_s=1.0, doubling=doubling, sharpest_decrease=SHARPEST)


def note(adaptive: AdaptiveLimit, seconds: float | None, *, begun_after: int | None = None) -> None:
    if seconds is None:
        adaptive.failed(begun_after=begun_after)
    else:
        adaptive.ended(seconds=seconds, begun_after=begun_after)


@given(first=st.integers(1, MOST), doubling=st.booleans(), history=st.lists(ends, max_size=200))
def test_whatever_happens_the_limit_stays_between_one_and_the_most(
    first: int, doubling: bool, history: list[float | None]
) -> None:
    adaptive = limit(first=first, doubling=doubling)
    for seconds in history:
        before = adaptive.value
        note(adaptive, seconds)
        assert 1 <= adaptive.value <= MOST
        if seconds is None or seconds > 1:
            assert adaptive.value <= max(1, before / 2)
            assert adaptive.value >= max(1, int(before * SHARPEST))
        else:
            assert before <= adaptive.value <= before + 1


@given(history=st.lists(ends, max_size=50))
def test_work_that_ends_soon_brings_the_limit_back_to_the_most(history: list[float | None]) -> None:
    adaptive = limit()
    for seconds in history:
        note(adaptive, seconds)
    rounds = 0
    while adaptive.value < MOST:
        for _ in range(adaptive.value):
            adaptive.ended(seconds=0.1)
        rounds += 1
        assert rounds <= 1.5 * MOST


@given(late=st.lists(st.one_of(st.none(), st.floats(1.1, 100)), min_size=1, max_size=MOST))
def test_work_that_ran_together_lowers_the_limit_once(late: list[float | None]) -> None:
    adaptive = limit(first=MOST)
    began = adaptive.decreases
    note(adaptive, late[0], begun_after=began)
    once = adaptive.value
    for seconds in late[1:]:
        note(adaptive, seconds, begun_after=began)
    adaptive.ended(seconds=0.1, begun_after=began)
    assert adaptive.value == once


def test_the_later_work_ends_the_more_the_limit_is_lowered() -> None:
    left = []
    for seconds in (1.1, 4.0, 1_000.0):
        adaptive = limit(first=MOST)
        adaptive.ended(seconds=seconds)
        left.append(adaptive.value)
    assert left == [16, 8, 4]


def test_the_limit_is_lowered_in_proportion_to_the_delay_between_the_two_given_bounds() -> None:
    left = []
    for seconds in (1.1, 2.0, 1_000.0):
        adaptive = AdaptiveLimit(first=MOST, most=MOST, aim_s=1.0, sharpest_decrease=SHARPEST, gentlest_decrease=0.75)
        adaptive.ended(seconds=seconds)
        left.append(adaptive.value)
    assert left == [24, 16, 4]


def test_a_limit_that_is_not_made_use_of_does_not_grow() -> None:
    adaptive = limit()
    for _ in range(100):
        adaptive.ended(seconds=0.1, may_grow=False)
    assert adaptive.value == 4


def test_until_it_is_too_much_the_limit_doubles_with_each_round_and_then_grows_by_one() -> None:
    adaptive = limit()
    for _ in range(4):
        adaptive.ended(seconds=0.1)
    assert adaptive.value == 8
    adaptive.failed()
    assert adaptive.value == 1
    adaptive.ended(seconds=0.1)
    assert adaptive.value == 2
    for _ in range(2):
        adaptive.ended(seconds=0.1)
    assert adaptive.value in (2, 3), "one more a round, not twice as many"


def test_work_that_takes_neither_long_nor_little_changes_nothing() -> None:
    adaptive = limit()
    adaptive.ended(seconds=0.7)
    assert adaptive.value == 4
