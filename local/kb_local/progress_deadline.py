"""Timeouts that are extended while there is progress, for busy machines."""

from collections.abc import Hashable
from time import monotonic


class ProgressDeadline:
    """Ends a wait after a time without progress, however long the wait takes in total."""

    def __init__(self, limit_s: float) -> None:
        """Begin to wait, at most `limit_s` seconds without progress."""
        self.limit_s = limit_s
        self._seen: set[Hashable] = set()
        self._progressed_at = monotonic()

    def record(self, progress: Hashable) -> None:
        """Record the current progress; a value that was seen before is no progress (a process that crash-loops)."""
        if progress not in self._seen:
            self._seen.add(progress)
            self._progressed_at = monotonic()

    @property
    def is_over(self) -> bool:
        return monotonic() - self._progressed_at > self.limit_s
