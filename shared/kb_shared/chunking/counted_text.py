"""A text encoded once: the tokens of any span of it are known from then on, almost without encoding it again."""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kb_shared.text.tokens import count_tokens, tokens_before

_WINDOW_CODE_POINTS = 65_536  # a "word" of megabytes would cost the tokenizer the square of its length


class CountedText:
    """Counts the tokens of spans in constant time, wherever words stand between spaces.

    `cl100k_base` begins a token at each space that follows anything but whitespace, whatever stands before and after.
    So a span has the tokens that the whole text has between the first and the last such place in it, and those of its
    first and its last word, which are all that is encoded again.
    """

    __slots__ = ("_before", "_torn", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._torn: list[int] = []
        """Offsets at which the text had to be cut for the tokenizer with no such place near."""
        self._before = self._encoded().data
        """Number of tokens of the text that begin before each offset."""

    def between(self, start: int, end: int) -> int:
        """Return how many tokens of the whole text begin in `start` to `end`: a sum over neighbours is exact."""
        count: int = self._before[end] - self._before[start]
        return count

    def reach_back(self, start: int, end: int, tokens: int) -> int:
        """Return the first offset from `start` on with at most `tokens` tokens between it and `end`."""
        return bisect_left(self._before, self._before[end] - tokens, start, end)

    def count(self, start: int, end: int, *, then: str = "") -> int:
        """Return exactly `count_tokens(text[start:end] + then)`; `then` must not begin with a space."""
        text = self.text
        first = text.find(" ", start + 1, end)
        if first < 0 or text[first - 1].isspace():
            return count_tokens(text[start:end] + then)
        last = text.rfind(" ", first, end)
        while text[last - 1].isspace():
            last = text.rfind(" ", first, last)
        if self._torn and bisect_left(self._torn, first) != bisect_left(self._torn, last):
            return count_tokens(text[start:end] + then)
        return count_tokens(text[start:first]) + self.between(first, last) + count_tokens(text[last:end] + then)

    def _encoded(self) -> NDArray[np.uint32]:
        before = np.zeros(len(self.text) + 1, dtype=np.uint32)
        for start, end in self._windows():
            before[start : end + 1] = before[start] + tokens_before(self.text[start:end])
        return before

    def _windows(self) -> Iterator[tuple[int, int]]:
        start = 0
        while start < len(self.text):
            end = min(start + _WINDOW_CODE_POINTS, len(self.text))
            if end < len(self.text):
                place = _last_place(self.text, start, end)
                if place is None:
                    self._torn.append(end)
                else:
                    end = place
            yield start, end
            start = end


def _last_place(text: str, start: int, end: int) -> int | None:
    """Return the last space after `start` and before `end` that follows something else than whitespace."""
    place = text.rfind(" ", start + 1, end)
    while place > 0 and text[place - 1].isspace():
        place = text.rfind(" ", start + 1, place)
    return place if place > 0 else None
