"""Handles a suspect document alone in this process; the others side by side.

A process that dies interrupts all documents that it has in work. Which one killed it is certain only if it was alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SuspectQuarantine:
    """Admits many documents at once, or a single one."""

    def __init__(self) -> None:
        # First come, first served: a document that waits to be alone is not overtaken by later ones.
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def enter_side_by_side(self) -> AsyncIterator[None]:
        """Enter beside others, while no document is alone or waits to be alone."""
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
    async def enter_alone(self) -> AsyncIterator[None]:
        """Enter alone, after all earlier documents are done; later ones wait."""
        async with self._door:
            await self._empty.wait()
            yield
