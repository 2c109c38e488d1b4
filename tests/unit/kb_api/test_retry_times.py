from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kb_api.webhooks.retry_times import FIRST_PAUSE_S, JITTER, LAST_ATTEMPT_BEFORE, LONGEST_PAUSE_S, next_attempt

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


@given(st.floats(0, 1), st.floats(0, 100_000), st.floats(0, 86_400))
def test_a_pause_that_the_receiver_asks_for_is_kept_within_the_limits_of_the_delivery(
    chance: float, asked_pause_s: float, left_s: float
) -> None:
    give_up_at = NOW + timedelta(seconds=left_s)
    usual = next_attempt(now=NOW, attempts=1, give_up_at=give_up_at, chance=chance)
    asked = next_attempt(now=NOW, attempts=1, give_up_at=give_up_at, chance=chance, asked_pause_s=asked_pause_s)
    assert (asked is None) == (usual is None)
    if usual is not None and asked is not None:
        wanted, latest = NOW + timedelta(seconds=min(asked_pause_s, LONGEST_PAUSE_S)), give_up_at - LAST_ATTEMPT_BEFORE
        assert max(usual, min(wanted, latest)) <= asked <= max(usual, latest)


def test_a_day_has_about_a_dozen_attempts() -> None:
    at, attempts, give_up_at = NOW, 1, NOW + timedelta(days=1)
    while (after := next_attempt(now=at, attempts=attempts, give_up_at=give_up_at, chance=0.5)) is not None:
        at, attempts = after, attempts + 1
    assert 10 <= attempts <= 14
