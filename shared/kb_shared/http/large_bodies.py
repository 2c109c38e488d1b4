"""Handles large bodies: few of them are in memory at once, and a thread parses them beside the event loop."""

import sys
from typing import Final

from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.http.concurrency_limit import ConcurrencyLimit

LARGE_BYTES: Final = 64_000
"""Size up to which a body is parsed on the event loop, which takes less time than a thread would delay the loop."""
MAX_IN_MEMORY: Final = 64
MAX_IN_MEMORY_OF_ORGANIZATION: Final = 16
SHARE_ALONE: Final = 0.5
"""Share of the parsing thread's time for an organization while no other one sends requests."""
SHARE_AMONG_OTHERS: Final = 0.04
"""Share of its time for an organization while others send requests. The event loop is slower while the thread works:
with a larger share, more than one request in twenty would meet it, and the 95th percentile would rise."""
SWITCH_INTERVAL_S: Final = 0.0005
"""Longest time that the loop waits for the interpreter's lock while a thread has it, each time that it wakes up. With
Python's default of 5 ms a search, which wakes up about thirty times, is four times as slow."""


class LargeBodies:
    """Limits the large bodies of an application, and has the thread that parses them."""

    def __init__(self, fair_queue: FairQueue) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._fair_queue = fair_queue
        self.thread: Final = SharedThread("large-bodies", share_of=self._share_of)
        self.limit: Final = ConcurrencyLimit(
            "large bodies", MAX_IN_MEMORY, limit_of_organization=MAX_IN_MEMORY_OF_ORGANIZATION
        )

    def _share_of(self, organization_id: str) -> float:
        return SHARE_AMONG_OTHERS if self._fair_queue.others_call(organization_id) else SHARE_ALONE
