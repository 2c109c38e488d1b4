"""Large bodies: few of them are in memory at once, and they are parsed beside the event loop."""

import sys
from typing import Final

from kb_shared.http.places import Places
from kb_shared.shared_thread import SharedThread

LARGE_BYTES: Final = 64_000
"""What is smaller is parsed on the loop: that takes less time than a thread would delay the loop."""
MOST: Final = 64
MOST_OF_ORGANIZATION: Final = 16
"""In memory at once."""
SHARE_OF_ORGANIZATION: Final = 0.25
"""Of the time of a thread beside the event loop. While it works the loop is slower, for all organizations."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop waits for the interpreter's lock while a thread has it, each time that it wakes up. Python's own
5 ms make a search, which wakes up some thirty times, four times as slow."""


class LargeBodies:
    """Of an application."""

    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.thread: Final = SharedThread("large-bodies", share_of_organization=SHARE_OF_ORGANIZATION)
        self.places: Final = Places("large bodies", MOST, MOST_OF_ORGANIZATION)
