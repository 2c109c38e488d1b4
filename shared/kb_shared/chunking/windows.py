"""Let a splitter see a long text in windows, so that its time stays linear and its memory flat."""

from collections.abc import Callable, Iterator

from kb_shared.chunking.chunk import Span

_MAX_WINDOWS_IN_ONE = 4


def split_in_windows(outer: Span, split: Callable[[Span], list[Span]], *, window: int) -> Iterator[Span]:
    """Yield the spans of `outer` that `split` finds in one window of `window` code points after the other.

    A window's end is arbitrary, so its last span is not kept: the next window starts with it. A window that holds
    fewer than two spans is doubled, which costs at most twice the length of the span that did not fit. Where four
    windows hold no more than one span, that is yielded, and cut at an arbitrary place.
    """
    start, length = outer.start, window
    while start < outer.end:
        end = min(start + length, outer.end)
        spans = split(Span(start, end))
        if end == outer.end:
            yield from spans
            return
        if len(spans) > 1:
            yield from spans[:-1]
            start, length = spans[-1].start, window
        elif length < _MAX_WINDOWS_IN_ONE * window:
            length *= 2
        else:
            yield Span(start, end)
            start, length = end, window
