"""Decides where a long text is divided into parts. Pure.

Where a part ends depends on the lines near its end alone: a change of one part leaves the others as they are.
"""

import re
import zlib
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

_SHORTEST_SHARE: Final = 4
"""A part that is followed by another has at least a quarter of the characters that it may have."""
_LABEL_CHARACTERS: Final = 80
_HEADING: Final = re.compile(r"(#{1,6}) +\S")
_FENCES: Final = ("```", "~~~")
_PARAGRAPH: Final = 7
"""Rank after those of the six levels of headings."""
_LINE: Final = 8


class _PartStart(NamedTuple):
    """Beginning of a line, where a part may begin. The smallest rank is best; of equal ones, the smallest checksum."""

    rank: int
    checksum: int
    position: int


def find_part_starts(text: str, longest: int) -> list[int]:
    """Return where the parts begin: at the headings of the highest level, else at paragraphs, lines or words."""
    places = _find_places(text)
    positions = [place.position for place in places]
    starts = [0]
    while len(text) - starts[-1] > longest:
        earliest, latest = starts[-1] + longest // _SHORTEST_SHARE, starts[-1] + longest
        within = places[bisect_left(positions, earliest) : bisect_right(positions, latest)]
        # The checksum chooses the same line again after a change before it.
        starts.append(min(within).position if within else _end_of_word(text, earliest, latest))
    return starts


def _find_places(text: str) -> list[_PartStart]:
    places: list[_PartStart] = []
    position, fence, after_blank = 0, "", False
    for line in text.splitlines(keepends=True):
        rank = _PARAGRAPH if after_blank else _LINE
        beginning = line.lstrip()[:3]
        if fence:
            # A line of code that begins with # is no heading.
            rank, fence = _LINE, "" if beginning == fence else fence
        elif beginning in _FENCES:
            fence = beginning
        elif heading := _HEADING.match(line):
            rank = len(heading[1])
        after_blank = not line.strip()
        if not after_blank:
            places.append(_PartStart(rank, zlib.crc32(line.encode()), position))
        position += len(line)
    return places


def _end_of_word(text: str, earliest: int, latest: int) -> int:
    space = text.rfind(" ", earliest, latest)
    return latest if space < 0 else space + 1


def label_part(text: str) -> str:
    """Return the first line of a part as its name, without the signs of a heading."""
    words = text.partition("\n")[0].lstrip("# ").split()
    label = " ".join(words)
    return label if len(label) <= _LABEL_CHARACTERS else f"{label[: _LABEL_CHARACTERS - 1]}…"
