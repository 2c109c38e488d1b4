"""Decides when a delivery is tried again."""

from datetime import datetime, timedelta
from typing import Final

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 4 * 3600.0
GROWTH: Final = 4.0
JITTER: Final = 0.2
"""Part of a pause by which it may be longer or shorter, so that deliveries that failed together spread."""

LAST_ATTEMPT_BEFORE: Final = timedelta(minutes=1)
"""Time before the end of a delivery until which a pause that the receiver asks for may last."""


def next_attempt(
    *, now: datetime, attempts: int, give_up_at: datetime, chance: float, asked_pause_s: float | None = None
) -> datetime | None:
    """Return the time of the next attempt; None if it would be after `give_up_at`.

    A pause that the receiver asks for never costs the last attempt: this is made before `give_up_at` instead.

    Args:
        now: time of the failure.
        attempts: number of attempts so far, from 1.
        give_up_at: time after which there is none.
        chance: random number from 0 to 1.
        asked_pause_s: `Retry-After` of the receiver. Only a longer pause than the usual one matters.
    """
    # The exponent is limited, because a float is.
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * GROWTH ** min(attempts - 1, 20))
    again_at = now + timedelta(seconds=pause_s * (1 - JITTER + 2 * JITTER * chance))
    if again_at > give_up_at:
        return None
    if asked_pause_s is None:
        return again_at
    # Only longer, never shorter, so that not all come back at once.
    asked_at = now + timedelta(seconds=min(LONGEST_PAUSE_S, asked_pause_s) * (1 + JITTER * chance))
    return max(again_at, min(asked_at, give_up_at - LAST_ATTEMPT_BEFORE))
