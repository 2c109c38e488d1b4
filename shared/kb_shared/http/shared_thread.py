"""A thread for work that would stop the event loop for too long."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Final, TypeVar

from kb_shared.turns import Turns

SHARE_OF_ORGANIZATION: Final = 0.25
"""Of the thread's time, in seconds of CPU. While the thread works the loop is slower, for all organizations."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop waits for the interpreter's lock while the thread has it, each time that it wakes up. Python's own
5 ms make a search, which wakes up some thirty times, four times as slow."""

T = TypeVar("T")


class SharedThread:
    """Does one thing at a time, in which organizations take turns.

    Python code holds the interpreter's lock: a second thread would not do more, and would delay the loop for longer.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._turns = Turns()
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    async def work(self, organization_id: str, do: Callable[[], T]) -> T:
        """Call `do` when it is the organization's turn: one of its calls at most is in the thread's queue.

        Its next turn comes when the thread has had time for others, so that one organization never keeps it busy.
        """
        turn = self._turns.of(organization_id)
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
            asyncio.get_running_loop().call_later(took_s * (1 / SHARE_OF_ORGANIZATION - 1), turn.release)
