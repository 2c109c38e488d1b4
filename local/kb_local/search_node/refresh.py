"""Delays until a committed change is searchable: none, or late and in pieces as on a real deployment."""

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from bson.timestamp import Timestamp


@dataclass(frozen=True, slots=True)
class RowChange:
    """A document as it was looked up after a change; None when it is gone."""

    document_id: Any
    document: dict[str, Any] | None
    committed_at: float
    """Unix time in seconds."""
    cluster_time: Timestamp


@dataclass(frozen=True, slots=True)
class Delays:
    """Delay of the node on purpose.

    Args:
        lag_s: the age at which a change can be found.
        refresh_s: mean time between two refreshes of an index; changes become visible only there.
        build_s: how long a build takes at least.
        status_s: time between two publications of the statuses that lists show.
        seed: of all that is drawn at random.
    """

    lag_s: float = 0.0
    refresh_s: float = 0.0
    build_s: float = 0.0
    status_s: float = 0.0
    seed: int = 0

    @property
    def immediate(self) -> bool:
        return self.lag_s == 0 and self.refresh_s == 0


class RefreshQueue:
    """The changes that one index does not show yet. Takes the time as an argument: it has no clock of its own."""

    def __init__(self, delays: Delays, *, index_name: str) -> None:
        self._delays = delays
        self._random = random.Random(f"{delays.seed}/{index_name}")  # noqa: S311  # repeatable, not secret
        self._waiting: deque[RowChange] = deque()
        self._last_refresh = float("-inf")

    @property
    def deletions(self) -> int:
        """Count the changes that take a document away."""
        return sum(change.document is None for change in self._waiting)

    def push(self, change: RowChange) -> None:
        self._waiting.append(change)

    def forget_until(self, cluster_time: Timestamp) -> None:
        """Drop what a scan that began at `cluster_time` has seen already, perhaps in a later state."""
        while self._waiting and self._waiting[0].cluster_time <= cluster_time:
            self._waiting.popleft()

    def take_all(self) -> list[RowChange]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def refresh(self, now: float) -> list[RowChange]:
        """Return what becomes visible at `now`, in the order of commits.

        Nothing younger than the lag, everything that was old enough at the refresh before, and of what became old
        enough since then a random number of changes: the cut may fall into the middle of a transaction.
        """
        old_enough = self._older_than(now - self._delays.lag_s)
        overdue = min(old_enough, self._older_than(self._last_refresh - self._delays.lag_s))
        self._last_refresh = now
        return [self._waiting.popleft() for _ in range(self._random.randint(overdue, old_enough))]

    def until_next_refresh_s(self) -> float:
        """Draw how long the next refresh is away."""
        return self._delays.refresh_s * self._random.uniform(0.5, 1.5)

    def build_time_s(self) -> float:
        """Draw how long a build takes at least."""
        return self._delays.build_s * self._random.uniform(1.0, 1.25)

    def _older_than(self, committed: float) -> int:
        """Return how many of the first changes were committed by then."""
        for number, change in enumerate(self._waiting):
            if change.committed_at > committed:
                return number
        return len(self._waiting)
