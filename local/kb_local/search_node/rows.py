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
        self._released: deque[tuple[int, int]] = deque()
        self._readers: set[int] = set()
        self._last_reader = 0

    def allocate(self) -> int:
        self._collect_released()
        if self._free:
            return self._free.pop()
        self.count += 1
        return self.count - 1

    def release(self, row: int) -> None:
        self._released.append((self._last_reader, row))

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._last_reader += 1
        reader = self._last_reader
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def _collect_released(self) -> None:
        oldest = min(self._readers, default=math.inf)
        while self._released and self._released[0][0] < oldest:
            self._free.append(self._released.popleft()[1])
