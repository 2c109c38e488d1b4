"""Large bodies: few of them are in memory at once, and they are parsed beside the event loop."""

from typing import Final

from kb_shared.http.places import Places
from kb_shared.http.shared_thread import SharedThread

LARGE_BYTES: Final = 64_000
"""What is smaller is parsed on the loop: that takes less time than a thread would delay the loop."""
MOST: Final = 64
MOST_OF_ORGANIZATION: Final = 16
"""In memory at once."""


class LargeBodies:
    """Of an application."""

    def __init__(self) -> None:
        self.thread: Final = SharedThread("large-bodies")
        self.places: Final = Places("large bodies", MOST, MOST_OF_ORGANIZATION)
