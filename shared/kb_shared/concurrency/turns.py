"""Turns within a process at a row that several of its tasks would work on at once.

Without them their transactions would conflict, and a transaction that loses begins anew with all it has done.
"""

import asyncio
from weakref import WeakValueDictionary


class Turns:
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, row_id: str) -> asyncio.Lock:
        """Hold it for as long as the work on the row lasts."""
        return self._locks.setdefault(row_id, asyncio.Lock())
