"""Provides locks by key within a process, for rows that several of its tasks would change at the same time.

Without a lock their transactions would conflict, and the one that loses is repeated as a whole.
"""

import asyncio
from weakref import WeakValueDictionary


class KeyedLocks:
    """Holds one lock for each key in use."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock of `key`, which exists while a task holds it or waits for it."""
        return self._locks.setdefault(key, asyncio.Lock())
