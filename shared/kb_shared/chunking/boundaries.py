"""Tests whether a text may be cut at an offset without hurting a reader. Pure."""

import re
import unicodedata

_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


def starts_word(text: str, offset: int) -> bool:
    """Return whether whitespace, or an end of the text, is on either side of `offset`."""
    return offset in (0, len(text)) or text[offset].isspace() or text[offset - 1].isspace()


def starts_grapheme(text: str, offset: int) -> bool:
    """Return whether a cut at `offset` leaves base letters with their marks and joined emoji whole.

    An approximation of UAX #29 that needs no tables: pairs of regional indicators (flags) may be parted.
    """
    if offset in (0, len(text)):
        return True
    following, previous = text[offset], text[offset - 1]
    if _ZERO_WIDTH_JOINER in (following, previous) or following in _SKIN_TONES:
        return False
    return not unicodedata.category(following).startswith("M")


def is_heading(text: str, offset: int) -> bool:
    """Return whether a Markdown heading starts at `offset`, the first non-blank character of a line."""
    return _HEADING.match(text, offset) is not None


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return `start`, `end` without whitespace at either side; equal when there is nothing else."""
    piece = text[start:end]
    if not piece or piece.isspace():
        return start, start
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
