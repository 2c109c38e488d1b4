"""How long to rest between two looks for work: longer where looking takes long, so that it leaves room for the work."""

from typing import Final

_REST_FOR_A_LOOK: Final = 5.0
"""Times what a look took. Many look all the time, also at a MongoDB with too little CPU."""
LONGEST_REST_S: Final = 2.0


def rest_s(least_s: float, *, looked_for_s: float) -> float:
    """Return how long to rest after a look that took so long: at least `least_s`."""
    return max(least_s, min(LONGEST_REST_S, _REST_FOR_A_LOOK * looked_for_s))
