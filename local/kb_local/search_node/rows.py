"""Row numbers that are not reused under a running search."""

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Rows:
    """Hands out row numbers. One given back is reused only when no reader that might look at it is left.

    That makes every search see the rows as they were when it began, without a lock: a change never writes into a row
    that a search in another thread is reading.
    """

    def __init__(self) -> None:
        self.count = 0
        self._free: list[int] = []
        self._resting: deque[tuple[int, int]] = deque()
        self._readers: set[int] = set()
        self._last_reader = 0

    def allocate(self) -> int:
        self._wake()
        if self._free:
            return self._free.pop()
        self.count += 1
        return self.count - 1

    def give_back(self, row: int) -> None:
        self._resting.append((self._last_reader, row))

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._last_reader += 1
        reader = self._last_reader
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def _wake(self) -> None:
        oldest = min(self._readers, default=math.inf)
        while self._resting and self._resting[0][0] < oldest:
            self._free.append(self._resting.popleft()[1])
