"""Pages that a span of the text touches."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from kb_shared.chunking.chunk import PageSpan


class PageIndex:
    """Finds pages by offset in logarithmic time, whatever the order in which they were given."""

    __slots__ = ("_ends", "_pages", "_starts")

    def __init__(self, pages: Sequence[PageSpan]) -> None:
        self._pages = sorted((page for page in pages if page.start < page.end), key=lambda page: page.start)
        self._starts = [page.start for page in self._pages]
        # The furthest end so far: pages that overlap would leave their own ends out of order.
        self._ends = list(accumulate((page.end for page in self._pages), max))

    def find(self, start: int, end: int) -> tuple[int | None, int | None]:
        """Return the numbers of the first and the last page that `start` to `end` touches, or None twice."""
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end) - 1
        if first > last:
            return None, None
        return self._pages[first].page, self._pages[last].page
