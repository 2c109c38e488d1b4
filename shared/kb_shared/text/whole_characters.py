"""Texts of models without halves of surrogate pairs."""

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_characters(text: str) -> str:
    """Return `text` with surrogate pairs joined to their character, and single halves replaced.

    JSON can say half of a pair, so models do; nothing here can store or send one.
    """
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class WholeCharacters:
    """The same for a text that comes in pieces: the first half of a pair waits for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return whole_characters(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return whole_characters(self._half)
