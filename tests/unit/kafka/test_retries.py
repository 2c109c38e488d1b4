from hypothesis import given
from hypothesis import strategies as st

from kb_shared.kafka.retries import LONGEST_PAUSE_S, LONGEST_RETRY_AFTER_S, pause_s


@given(tries=st.integers(1, 100_000))
def test_a_pause_grows_up_to_fifteen_seconds_however_long_it_goes_on(tries: int) -> None:
    assert 0.1 <= pause_s(tries) <= min(LONGEST_PAUSE_S, 0.2 * 2.0 ** min(tries - 1, 20))


def test_pauses_double() -> None:
    # Jitter takes at most half, so the shortest two tries later is as long as the longest now.
    assert all(max(pause_s(n) for _ in range(50)) <= min(pause_s(n + 1) for _ in range(50)) for n in range(1, 6))


@given(tries=st.integers(1, 20), retry_after_s=st.floats(0, 299))
def test_nothing_is_tried_before_retry_after_is_over(tries: int, retry_after_s: float) -> None:
    assert pause_s(tries, retry_after_s=retry_after_s) >= retry_after_s


def test_a_retry_after_of_days_is_not_believed() -> None:
    assert pause_s(1, retry_after_s=1e6) == LONGEST_RETRY_AFTER_S
