"""A thread for work that would stop the event loop for too long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kb_shared.turns import Turns

T = TypeVar("T")


class SharedThread:
    """Does one thing at a time, in which organizations take turns.

    Python code holds the interpreter's lock: a second thread would not do more, and would delay the loop for longer.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._turns = Turns()

    async def work(self, organization_id: str, do: Callable[[], T]) -> T:
        """Call `do` when it is the organization's turn: one of its calls at most is in the thread's queue."""
        async with self._turns.of(organization_id):
            return await asyncio.get_running_loop().run_in_executor(self._thread, do)
