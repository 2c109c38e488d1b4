"""Decides when a delivery is tried again."""

from datetime import datetime, timedelta
from typing import Final

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 4 * 3600.0
GROWTH: Final = 4.0
JITTER: Final = 0.2
"""Part of a pause by which it may be longer or shorter, so that deliveries that failed together spread."""


def next_attempt(*, now: datetime, attempts: int, give_up_at: datetime, chance: float) -> datetime | None:
    """Return the time of the next attempt; None if it would be after `give_up_at`.

    Args:
        now: time of the failure.
        attempts: number of attempts so far, from 1.
        give_up_at: time after which there is none.
        chance: random number from 0 to 1.
    """
    # The exponent is limited, because a float is.
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * GROWTH ** min(attempts - 1, 20))
    again_at = now + timedelta(seconds=pause_s * (1 - JITTER + 2 * JITTER * chance))
    return again_at if again_at <= give_up_at else None
