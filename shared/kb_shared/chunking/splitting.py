"""Splits a text into spans of chunks: the chunker's own splitter first, finer ones for what it leaves too long."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from kb_shared.chunking.boundaries import trimmed
from kb_shared.chunking.chunk import SizedSpan, Span
from kb_shared.chunking.counted_text import CountedText

Splitter = Callable[[CountedText, Span, int], Iterable[Span]]
"""Function that returns spans that cover the given one in order. Most are within the limit in tokens, some may be over
it."""


def split_within(
    counted: CountedText, outer: Span, *, limit: int, splitters: Sequence[Splitter]
) -> Iterator[SizedSpan]:
    """Yield spans in order, without whitespace at either side, none blank, none over `limit`.

    Args:
        counted: the text.
        outer: what of it to split.
        limit: in tokens.
        splitters: the first is asked, the next ones for what is still over the limit.
    """
    splitter, *finer = splitters
    for span in splitter(counted, outer, limit):
        start, end = trimmed(counted.text, *span)
        if start == end:
            continue
        token_count = _count(counted, Span(start, end), limit=limit)
        if token_count <= limit:
            yield SizedSpan(start, end, token_count)
        else:
            yield from split_within(counted, Span(start, end), limit=limit, splitters=finer or [_halve])


def cut(outer: Span, begins: Sequence[int]) -> list[Span]:
    """Return the parts of a span, of which each but the first begins at one of the offsets in order."""
    inner = begins[bisect_right(begins, outer.start) : bisect_left(begins, outer.end)]
    return [Span(*part) for part in pairwise([outer.start, *inner, outer.end])]


def as_it_is(_counted: CountedText, outer: Span, _limit: int) -> list[Span]:
    """Leave the cutting to the next splitter."""
    return [outer]


def _count(counted: CountedText, span: Span, *, limit: int) -> int:
    """Return the tokens of the span: exactly, unless they are far over `limit`."""
    estimate = counted.between(span.start, span.end)
    # A "word" of megabytes is not encoded again to learn by how much exactly it is too long.
    return estimate if estimate > 2 * limit else counted.count(span.start, span.end)


def _halve(_counted: CountedText, outer: Span, _limit: int) -> list[Span]:
    """Cut by code points, which always ends: one of them is at most four tokens."""
    middle = (outer.start + outer.end) // 2
    return [Span(outer.start, middle), Span(middle, outer.end)]
