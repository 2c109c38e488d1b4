"""The windows of the `late` chunker: in what text around it a chunk is embedded."""

from collections.abc import Iterator, Sequence
from typing import Final

from kb_shared.chunking.chunk import SizedSpan
from kb_shared.embedding.late_text import LateText
from kb_shared.text.text_normalization import AS_WRITTEN, fold, is_blank

WINDOW_TOKENS: Final = 2_000
"""Number of tokens up to which neighbouring chunks share a window: they are read at the cost of one."""


def surroundings(text: str, spans: Sequence[SizedSpan], *, text_normalization: int) -> Iterator[LateText]:
    """Yield each span in its window, normalized for the model, in order; windows do not overlap."""
    for late_text in _as_written(text, spans):
        yield late_text if text_normalization == AS_WRITTEN else _folded(late_text)


def _as_written(text: str, spans: Sequence[SizedSpan]) -> Iterator[LateText]:
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


def _folded(late_text: LateText) -> LateText:
    """Fold each part by itself, so that the new offsets of the piece are known; no white space is in two parts."""
    window, start, end = late_text
    before, piece, after = fold(window[:start]), fold(window[start:end]), fold(window[end:])
    if is_blank(piece):
        return late_text
    return LateText(before + piece + after, len(before), len(before) + len(piece))
