"""The windows of the `late` chunker: in what text around it a chunk is embedded."""

from collections.abc import Iterator, Sequence
from typing import Final

from kb_indexer.chunking.chunk import SizedSpan
from kb_shared.embedding.late_text import LateText

WINDOW_TOKENS: Final = 2_000
"""A window is as many neighbouring chunks as fit: what one chunk costs to read, it costs once for all of them."""


def surroundings(text: str, spans: Sequence[SizedSpan]) -> Iterator[LateText]:
    """Yield each span in its window, in order; windows do not overlap."""
    window: list[SizedSpan] = []
    for span in spans:
        if window and sum(each.token_count for each in window) + span.token_count > WINDOW_TOKENS:
            yield from _in_window(text, window)
            window = []
        window.append(span)
    yield from _in_window(text, window)


def _in_window(text: str, spans: Sequence[SizedSpan]) -> Iterator[LateText]:
    for span in spans:
        start = spans[0].start
        yield LateText(text[start : spans[-1].end], span.start - start, span.end - start)
