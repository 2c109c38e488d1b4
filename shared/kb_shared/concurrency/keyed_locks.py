"""Locks by key within a process, for a row that several of its tasks would change at the same time.

Without them their transactions would conflict, and a transaction that loses is repeated whole.
"""

import asyncio
from weakref import WeakValueDictionary


class KeyedLocks:
    """One lock for each key in use."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock of `key`, which exists for as long as somebody holds it or waits for it."""
        return self._locks.setdefault(key, asyncio.Lock())
