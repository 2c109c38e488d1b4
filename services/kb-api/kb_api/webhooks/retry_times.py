"""Decides when a delivery is tried again, and how long its receiver is left alone."""

from datetime import datetime, timedelta
from typing import Final

from kb_shared.providers.provider_errors import LONGEST_RETRY_AFTER_S

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 4 * 3600.0
LONGEST_PAUSE_OF_RECEIVER_S: Final = LONGEST_RETRY_AFTER_S
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
    pause_s = min(LONGEST_PAUSE_S, _grown(attempts - 1))
    again_at = now + timedelta(seconds=pause_s * (1 - JITTER + 2 * JITTER * chance))
    return None if again_at > give_up_at else again_at


def pause_of_receiver(*, pauses: int, chance: float, asked_s: float | None) -> timedelta:
    """Return for how long a receiver that answered 429 or 503 gets nothing.

    Args:
        pauses: number of its pauses since it last took an event.
        chance: random number from 0 to 1.
        asked_s: its `Retry-After`; None if it sent none that can be read.
    """
    wanted_s = _grown(pauses) if asked_s is None else max(FIRST_PAUSE_S, asked_s)
    # Only longer, never shorter, so that the webhooks of one receiver do not come back at once.
    return timedelta(seconds=min(LONGEST_PAUSE_OF_RECEIVER_S, wanted_s) * (1 + JITTER * chance))


def _grown(times: int) -> float:
    # The exponent is limited, because a float is.
    return FIRST_PAUSE_S * GROWTH ** min(times, 20)
