"""Large bodies: few of them are in memory at once, and they are parsed beside the event loop."""

import sys
from typing import Final

from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.concurrency.shared_thread import SharedThread
from kb_shared.http.places import Places

LARGE_BYTES: Final = 64_000
"""Size up to which a body is parsed on the loop: that takes less time than a thread would delay the loop."""
MOST: Final = 64
MOST_OF_ORGANIZATION: Final = 16
"""In memory at once."""
SHARE_ALONE: Final = 0.5
"""Share of the parsing thread's time for an organization that calls alone."""
SHARE_AMONG_OTHERS: Final = 0.04
"""For one of several that call. While the thread works the event loop is slower, for all of them: fewer than one of
twenty calls may meet it, or their 95th percentile rises."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop waits for the interpreter's lock while a thread has it, each time that it wakes up. Python's own
5 ms make a search, which wakes up some thirty times, four times as slow."""


class LargeBodies:
    """Places and a thread for the large bodies of an application."""

    def __init__(self, fair_queue: FairQueue) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._fair_queue = fair_queue
        self.thread: Final = SharedThread("large-bodies", share_of=self._share_of)
        self.places: Final = Places("large bodies", MOST, MOST_OF_ORGANIZATION)

    def _share_of(self, organization_id: str) -> float:
        return SHARE_AMONG_OTHERS if self._fair_queue.others_call(organization_id) else SHARE_ALONE
