"""Cancels calls to providers whose answer no caller needs any more."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kb_shared.embedding.batch_queue import PendingText
from kb_shared.errors import TransientError


class InFlightCalls:
    """Calls to providers that run in this process, by KB."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Timeout, Sequence[PendingText]] = {}
        self._cancelled: set[str | None] = set()

    @asynccontextmanager
    async def call_for(self, batch: Sequence[PendingText]) -> AsyncIterator[None]:
        """Make a call for `batch` in the block.

        Raises:
            TransientError: it was cancelled. A caller that has requested one of its texts since then asks again.
        """
        try:
            async with asyncio.timeout(None) as call:
                self._calls[call] = batch
                try:
                    yield
                finally:
                    del self._calls[call]
        except TimeoutError:
            if not call.expired():
                raise
            raise TransientError("the call was cancelled, because its knowledge base was deleted") from None

    def cancel_calls(self, kb_id: str) -> None:
        """Cancel the calls whose texts all belong to cancelled KBs and have no waiting caller any more."""
        self._cancelled.add(kb_id)
        now = asyncio.get_running_loop().time()
        for call, batch in self._calls.items():
            if all(pending.purpose.kb_id in self._cancelled and not pending.waiting for pending in batch):
                call.reschedule(now)
        self._cancelled &= {pending.purpose.kb_id for batch in self._calls.values() for pending in batch}
