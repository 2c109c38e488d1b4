"""Measures of how well the chunks that were found match the passages that answer a question, in tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb_shared.chunking.counted_text import CountedText

Interval = tuple[int, int]
"""Offsets in code points, the end exclusive."""


@dataclass(frozen=True, slots=True)
class Match:
    """Tokens of a question's passages, of the chunks found for it, and of what is in both."""

    wanted: int
    found: int
    both: int

    @property
    def recall(self) -> float:
        return self.both / self.wanted

    @property
    def precision(self) -> float:
        return self.both / self.found if self.found else 0.0

    @property
    def intersection_over_union(self) -> float:
        return self.both / (self.wanted + self.found - self.both)


def match(counted: CountedText, passages: Sequence[Interval], chunks: Sequence[Interval], *, elsewhere: int) -> Match:
    """Compare passages with chunks of their text.

    Args:
        counted: the text of both.
        passages: that answer the question.
        chunks: that were found.
        elsewhere: tokens of chunks that were found in other texts.
    """
    passages, chunks = _united(passages), _united(chunks)
    both = [
        (max(start, chunk_start), min(end, chunk_end))
        for start, end in passages
        for chunk_start, chunk_end in chunks
        if start < chunk_end and chunk_start < end
    ]
    return Match(
        wanted=_tokens(counted, passages), found=_tokens(counted, chunks) + elsewhere, both=_tokens(counted, both)
    )


def _tokens(counted: CountedText, intervals: Iterable[Interval]) -> int:
    return sum(counted.between(start, end) for start, end in intervals)


def _united(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same places, none of them twice."""
    united: list[Interval] = []
    for start, end in sorted(intervals):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united
