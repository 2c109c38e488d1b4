"""Computes the pause between two polls of MongoDB for work: longer if polls are slow, to leave time for the work."""

from typing import Final

_PAUSE_PER_POLL: Final = 5.0
"""Ratio of the pause to the duration of the poll. Many processes poll, even if MongoDB has too little CPU."""
LONGEST_PAUSE_S: Final = 2.0


def poll_pause_s(shortest_s: float, *, poll_took_s: float) -> float:
    """Return the seconds to wait after a poll that took `poll_took_s`; at least `shortest_s`."""
    return max(shortest_s, min(LONGEST_PAUSE_S, _PAUSE_PER_POLL * poll_took_s))
