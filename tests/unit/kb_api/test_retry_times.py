from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api.webhooks.retry_times import (
    FIRST_PAUSE_S,
    JITTER,
    LONGEST_PAUSE_OF_RECEIVER_S,
    LONGEST_PAUSE_S,
    next_attempt,
    pause_of_receiver,
)

NOW = datetime(2026, 1, 31, tzinfo=UTC)


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 86_400))
def test_pauses_grow_to_a_limit_and_never_pass_the_end(attempts: int, chance: float, left_s: float) -> None:
    give_up_at = NOW + timedelta(seconds=left_s)
    again_at = next_attempt(now=NOW, attempts=attempts, give_up_at=give_up_at, chance=chance)
    unlimited = next_attempt(now=NOW, attempts=attempts, give_up_at=NOW + timedelta(days=9), chance=chance)
    later = next_attempt(now=NOW, attempts=attempts + 1, give_up_at=NOW + timedelta(days=9), chance=chance)
    assert unlimited is not None
    assert later is not None
    assert unlimited <= later
    shortest, longest = (1 - JITTER) * FIRST_PAUSE_S, (1 + JITTER) * LONGEST_PAUSE_S
    assert timedelta(seconds=shortest) <= unlimited - NOW <= timedelta(seconds=longest)
    assert again_at == (unlimited if unlimited <= give_up_at else None)


@given(st.integers(0, 10_000), st.floats(0, 1), st.none() | st.floats(0, 1e12))
def test_a_receiver_is_left_alone_for_as_long_as_it_asks_within_limits(
    pauses: int, chance: float, asked_s: float | None
) -> None:
    pause_s = pause_of_receiver(pauses=pauses, chance=chance, asked_s=asked_s).total_seconds()
    assert FIRST_PAUSE_S <= pause_s <= (1 + JITTER) * LONGEST_PAUSE_OF_RECEIVER_S
    if asked_s is not None:
        assert pause_s >= min(asked_s, LONGEST_PAUSE_OF_RECEIVER_S) - 0.001
        assert pause_s <= max(asked_s, FIRST_PAUSE_S) * (1 + JITTER) + 0.001


@pytest.mark.parametrize(("pauses", "pause_s"), [(0, 5), (1, 20), (2, 80), (3, 320), (4, 1280), (5, 3600), (99, 3600)])
def test_without_a_time_of_its_own_a_receiver_is_left_alone_for_longer_each_time(pauses: int, pause_s: int) -> None:
    assert pause_of_receiver(pauses=pauses, chance=0, asked_s=None) == timedelta(seconds=pause_s)


def test_a_day_has_about_a_dozen_attempts() -> None:
    at, attempts, give_up_at = NOW, 1, NOW + timedelta(days=1)
    while (after := next_attempt(now=at, attempts=attempts, give_up_at=give_up_at, chance=0.5)) is not None:
        at, attempts = after, attempts + 1
    assert 10 <= attempts <= 14
