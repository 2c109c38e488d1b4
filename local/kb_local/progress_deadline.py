"""How long to wait for what may take long: on a busy machine everything does."""

from collections.abc import Hashable
from time import monotonic


class ProgressDeadline:
    """Ends a wait once nothing new has been seen for a while, however long it has been in all."""

    def __init__(self, limit_s: float) -> None:
        """Begin to wait, at most `limit_s` seconds without progress."""
        self.limit_s = limit_s
        self._seen: set[Hashable] = set()
        self._progressed_at = monotonic()

    def record(self, progress: Hashable) -> None:
        """Take in how far it is; what was seen before, as of a process that crashes again and again, is no progress."""
        if progress not in self._seen:
            self._seen.add(progress)
            self._progressed_at = monotonic()

    @property
    def is_over(self) -> bool:
        return monotonic() - self._progressed_at > self.limit_s
