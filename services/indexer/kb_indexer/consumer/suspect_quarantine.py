"""Lets a suspect document run alone in this process; others run side by side.

A process that dies interrupts all the documents it works on. Which of them killed it is known only if it was the only
one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SuspectQuarantine:
    """Admits many documents at once, or a single one."""

    def __init__(self) -> None:
        # First come, first served: who waits to be alone is not passed by those who come after it.
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def side_by_side(self) -> AsyncIterator[None]:
        """Enter beside others, once no document is alone or waits to be."""
        async with self._door:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if self._inside == 0:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Enter alone, once those before it are done; those that come meanwhile wait."""
        async with self._door:
            await self._empty.wait()
            yield
