"""Join what a splitter has left small, so that a long paragraph's last line does not become a chunk of its own."""

from collections.abc import Callable, Iterable, Iterator

from kb_shared.chunking.chunk import SizedSpan
from kb_shared.chunking.counted_text import CountedText


def merge_small(
    counted: CountedText, spans: Iterable[SizedSpan], limit: int, *, is_heading: Callable[[int], bool]
) -> Iterator[SizedSpan]:
    """Yield `spans` with neighbours joined while they fit `limit`, but never to a heading that follows."""
    group: list[SizedSpan] = []
    estimate = 0  # The sum of the parts: good enough to choose them, so that each group is counted only once.
    for span in spans:
        if group and (estimate + span.token_count > limit or is_heading(span.start)):
            yield from _joined(counted, group, limit)
            group, estimate = [], 0
        group.append(span)
        estimate += span.token_count + 1
    yield from _joined(counted, group, limit)


def _joined(counted: CountedText, group: list[SizedSpan], limit: int) -> list[SizedSpan]:
    """Return `group` as one span, or as it is where the whitespace in between makes it too long."""
    if len(group) < 2:
        return group
    start, end = group[0].start, group[-1].end
    token_count = counted.count(start, end)
    return [SizedSpan(start, end, token_count)] if token_count <= limit else group
