"""How long to wait before trying again in place. Pure but for the jitter."""

import random

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 15.0
LONGEST_RETRY_AFTER_S = 300.0


def pause_s(tries: int, *, retry_after_s: float | None = None) -> float:
    """Seconds to wait after `tries` failed ones: doubling up to 15, jittered, but at least `retry_after_s`."""
    # The exponent is bounded because a float is: after a day of tries 2**tries would not fit.
    growth = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries, 16) / 2)
    jittered = growth * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, guards nothing
    return max(jittered, min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S))
