"""Pages that a span of the text touches, and those that begin a chunk."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from kb_shared.chunking.boundaries import trimmed
from kb_shared.chunking.chunk import MIN_OWN_TOKENS, PageSpan, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.outline import Outline

_SHORT_PAGE = 2
"""Part of a chunk that a page fills at most, so that it ends because its subject does, and not because it is full."""


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

    def begin_chunks(self, counted: CountedText, outline: Outline, limit: int) -> list[int]:
        """Return where pages begin that are not in one chunk with what stands before them.

        Slides and pages of leaflets have a subject each. Of a book, whose pages are full, no page ends anything. A page
        that goes on with a sentence, or with what a heading announces, stays with the one before it.
        """
        begins: list[int] = []
        last = 0
        for before, after in self._neighbours(counted.text):
            shorter = min(counted.between(before.start, before.end), counted.between(after.start, after.end))
            is_worth_a_chunk = counted.between(last, after.start) >= MIN_OWN_TOKENS
            if (
                shorter * _SHORT_PAGE <= limit
                and is_worth_a_chunk
                and _may_begin(counted.text, outline, before=before, after=after)
            ):
                last = after.start
                begins.append(last)
        return begins

    def _neighbours(self, text: str) -> Iterator[tuple[Span, Span]]:
        """Yield the positions of two pages that follow each other, without white space around them."""
        spans = (Span(*trimmed(text, page.start, page.end)) for page in self._pages)
        for before, after in pairwise(span for span in spans if span.start < span.end):
            if before.end <= after.start:
                yield before, after


def _may_begin(text: str, outline: Outline, *, before: Span, after: Span) -> bool:
    last_line = max(text.rfind("\n", before.start, before.end) + 1, before.start)
    is_other_line = "\n" in text[before.end : after.start]
    return is_other_line and not (
        text[after.start].islower() or outline.is_heading(last_line) or outline.is_in_code(after.start)
    )
