"""A cache of one process that can't grow without limit."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from time import monotonic
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Keeps the entries that were used last, at most `max_entries` of them."""

    def __init__(
        self,
        max_entries: int,
        *,
        lifetime_s: float = inf,
        is_in_use: Callable[[Value], bool] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Create an empty cache.

        Args:
            max_entries: number of entries above which the least recently used one is removed.
            lifetime_s: seconds after `put` for which `find` returns the value, however often it is used.
            is_in_use: tells which values must stay. If all others are in use, the cache exceeds `max_entries`.
            clock: seconds of a monotonic clock.
        """
        self._max_entries = max_entries
        self._lifetime_s = lifetime_s
        self._is_in_use = is_in_use
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[Value, float]] = OrderedDict()

    def find(self, key: Key) -> Value | None:
        """Return the value of `key`, which becomes the most recently used; None if there is none or it is too old."""
        # Fast for a hit: a miss is followed by a read from MongoDB anyway.
        try:
            value, until = self._entries[key]
        except KeyError:
            return None
        if until <= self._clock():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Set the value of `key`, and remove the least recently used entry if there are too many."""
        self._entries[key] = (value, self._clock() + self._lifetime_s)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._remove_one(key)

    def discard(self, key: Key) -> None:
        """Remove the value of `key`, if there is one."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _remove_one(self, new: Key) -> None:
        if self._is_in_use is None:
            self._entries.popitem(last=False)
            return
        for key, (value, _) in self._entries.items():
            if key != new and not self._is_in_use(value):
                del self._entries[key]
                return
