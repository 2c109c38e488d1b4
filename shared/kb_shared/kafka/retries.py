"""Computes the pause before a retry. Pure except for the jitter."""

import random

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 15.0
LONGEST_RETRY_AFTER_S = 300.0


def pause_s(tries: int, *, retry_after_s: float | None = None) -> float:
    """Return the seconds to wait after `tries` failures: doubled up to 15, with jitter, at least `retry_after_s`."""
    # The exponent is bounded: after a day of retries, 2**tries would overflow a float.
    growth = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries, 16) / 2)
    jittered = growth * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, guards nothing
    return max(jittered, min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S))
