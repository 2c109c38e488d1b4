"""Lets a task that polls for work poll often while there is some, and wait for a signal while there is none."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Final

from kb_shared.concurrency.poll_pause import poll_pause_s

STAYS_AWAKE_S: Final = 2.0
"""Time for which a task polls often after it has found work or has been woken."""
LONGEST_IDLE_S: Final = 10.0
"""Longest pause of a task that waits for a signal. A signal that is lost delays the work by this."""


class WorkSignal:
    """Says that there may be work. One task waits for it; any number of others give it."""

    def __init__(self, *, is_reliable: bool = False) -> None:
        """Create a signal.

        Args:
            is_reliable: whether somebody gives the signal whenever work comes. If not, the task has to poll often.
        """
        self.is_reliable = is_reliable
        self._event = asyncio.Event()

    def wake(self) -> None:
        """End the pause of the task that waits, or its next one."""
        self._event.set()

    async def wait(self, longest_s: float) -> bool:
        """Wait for the signal, at most for `longest_s`; return whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._event.wait()
        came = self._event.is_set()
        self._event.clear()
        return came


class PollPause:
    """The pauses of one task between its polls of MongoDB."""

    def __init__(self, signal: WorkSignal, *, shortest_s: float, longest_s: float = LONGEST_IDLE_S) -> None:
        """Describe the pauses.

        Args:
            signal: ends a pause.
            shortest_s: pause while there is work, and always if the signal is not reliable.
            longest_s: pause while there is none.
        """
        self._signal = signal
        self._shortest_s = shortest_s
        self._longest_s = max(shortest_s, longest_s)
        self._awake_until = monotonic() + STAYS_AWAKE_S

    async def after_poll(self, *, found: bool, poll_took_s: float) -> None:
        """Wait after a poll; at least as long as `poll_pause_s` says, unless the signal comes."""
        if found:
            self._stay_awake()
        is_awake = monotonic() < self._awake_until or not self._signal.is_reliable
        shortest_s = poll_pause_s(self._shortest_s, poll_took_s=poll_took_s)
        if await self._signal.wait(shortest_s if is_awake else max(shortest_s, self._longest_s)):
            self._stay_awake()

    def _stay_awake(self) -> None:
        self._awake_until = monotonic() + STAYS_AWAKE_S
