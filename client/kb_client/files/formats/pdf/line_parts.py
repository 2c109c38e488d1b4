"""Parts of the text of a page that stand in one line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

WIDE_GAP: Final = 2.0
"""Gap between two columns at least, as a share of the height of the letters."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A line, or what of it stands in one column, with its place on the page."""

    start: int
    end: int
    """Offsets in the text of the page."""
    left: float
    right: float
    base: float
    height: float
    gaps: Sequence[tuple[int, float, float]] = ()
    """Wide gaps: offset of what follows, left and right end of the gap."""

    def joined(self, following: "LinePart") -> "LinePart":
        """Return both as one."""
        return replace(
            self,
            end=following.end,
            left=min(self.left, following.left),
            right=max(self.right, following.right),
            gaps=[*self.gaps, *following.gaps],
        )
