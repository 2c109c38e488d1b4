"""Who is at work in this process: many side by side, or one document alone.

A process that dies takes all down that it was at work on. Whose doing that was can be told only if it was one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Isolation:
    def __init__(self) -> None:
        # First come, first served: who waits to be alone is not passed by those who come after it.
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def side_by_side(self) -> AsyncIterator[None]:
        """Work beside others, once nobody is alone or waits to be."""
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
        """Work with nobody beside it, once those before it are done; who comes meanwhile waits."""
        async with self._door:
            await self._empty.wait()
            yield
