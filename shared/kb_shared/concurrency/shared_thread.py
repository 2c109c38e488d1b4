"""Runs work in a thread that would block the event loop for too long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import TypeVar

from kb_shared.concurrency.keyed_locks import KeyedLocks

T = TypeVar("T")


class SharedThread:
    """Runs one call at a time; organizations take turns.

    Because of the interpreter's lock a second thread would not do more work, and would delay the loop for longer.
    """

    def __init__(self, name: str, *, share_of: Callable[[str], float]) -> None:
        """Start the thread.

        Args:
            name: of the thread.
            share_of: returns the share of its CPU time that an organization may use now.
        """
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._share_of = share_of
        self._locks = KeyedLocks()

    async def work(self, organization_id: str, do: Callable[[], T]) -> T:
        """Call `do` in the thread when it is the organization's turn.

        At most one call of an organization is in the queue of the thread. Its next turn comes after time for other
        organizations, so that one organization never keeps the thread busy.
        """
        turn = self._locks.lock(organization_id)
        await turn.acquire()
        took_s = 0.0

        def timed() -> T:
            nonlocal took_s
            begun = thread_time()
            try:
                return do()
            finally:
                took_s = thread_time() - begun

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, timed)
        finally:
            asyncio.get_running_loop().call_later(took_s * (1 / self._share_of(organization_id) - 1), turn.release)

    def close(self) -> None:
        """Start no more calls, and do not wait for the running one."""
        self._thread.shutdown(wait=False, cancel_futures=True)
