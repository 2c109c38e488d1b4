"""Calls to providers that can be given up: what nobody will ever want need not be waited for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kb_shared.embedding.batch_queue import Wanted
from kb_shared.errors import TransientError


class CallsUnderWay:
    """Calls to providers that run in this process, by KB."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Timeout, Sequence[Wanted]] = {}
        self._given_up: set[str | None] = set()

    @asynccontextmanager
    async def call_for(self, batch: Sequence[Wanted]) -> AsyncIterator[None]:
        """Make a call for `batch` within this.

        Raises:
            TransientError: it was given up. Whoever has wanted one of its texts since then asks again.
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
            raise TransientError("the call was given up, because its knowledge base was deleted") from None

    def give_up(self, kb_id: str) -> None:
        """Cancel the calls that are for KBs that were given up alone, and whose texts nobody waits for any more."""
        self._given_up.add(kb_id)
        now = asyncio.get_running_loop().time()
        for call, batch in self._calls.items():
            if all(wanted.purpose.kb_id in self._given_up and not wanted.waiting for wanted in batch):
                call.reschedule(now)
        self._given_up &= {wanted.purpose.kb_id for batch in self._calls.values() for wanted in batch}
