"""Writes a piece of a text and its surroundings as one text, for late chunking.

Late chunking embeds a piece as a part of its surroundings. Written so, a piece is cached, charged and retried like any
other text, and its hash changes with its surroundings, as its vector does.
"""

import re
from typing import Final, NamedTuple

_HEAD: Final = re.compile(r"(\d{1,9}):(\d{1,9}):")


class LateText(NamedTuple):
    """`window[start:end]`, offsets in code points."""

    window: str
    start: int
    end: int

    def written(self) -> str:
        return f"{self.start}:{self.end}:{self.window}"

    @classmethod
    def read(cls, written: str) -> "LateText":
        """Read what `written` wrote; any other text is a piece without surroundings."""
        head = _HEAD.match(written)
        if head is None:
            return cls(written, 0, len(written))
        return cls(written[head.end() :], int(head[1]), int(head[2]))
