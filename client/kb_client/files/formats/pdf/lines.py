"""Reads the lines of a page with their places, and the gaps between words by the widths of letters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.pdf.characters import Box, place_of, read_boxes
from kb_client.files.formats.pdf.columns import order_columns
from kb_client.files.formats.pdf.line_parts import WIDE_GAP, LinePart
from kb_client.files.formats.pdf.parted_words import replace_parts
from kb_client.files.formats.pdf.raised import mark_raised

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_END_OF_LINE: Final = re.compile(r"[ ]?\r?\n|[\x02\ufffe]")
_DIGIT_AFTER_SOMETHING: Final = re.compile(r"(?<=\S)[0-9]")
_WITHOUT_SPACES: Final = re.compile(r"[\u0590-\u08ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufeff]")
"""Letters of scripts that are written from the right, or without a space between words."""
_GAP_OF_WORDS: Final = 0.16
"""Gap between two words at least, as a share of the height of the letters."""
_GAP_OF_LETTERS: Final = 0.06
"""Gap between two letters of a word at most, although a space stands between them in the file."""
_MOST_GAPS: Final = 0.34
"""Share of the letters of a line that a gap follows at most, and of the spaces that are no gap."""
_SAME_LINE: Final = 0.12
_RAISED: Final = 0.75
"""Shares of the height by which base lines of one line differ at most, and those of raised and lowered characters."""
_SMALL: Final = 0.87
_LONGEST_MARK: Final = 3
_DIFFERENT_WIDTHS: Final = 0.02
"""Difference of the widths of letters, as a share of their height, up to which all are as wide."""
_SAME_GAP: Final = 0.7
"""Smallest gap of a line whose words are spread, as a share of the widest one, at least."""
_FIRST_LETTERS: Final = 16
_FEW_WIDTHS: Final = 4
"""Letters at the begin of a line, and widths that they have if others than those of one font of code are among them."""
_LEAST_LETTERS: Final = 6
_WIDTH_OF_LETTER: Final = 0.5
_LEADING: Final = 1.2


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page; places are in points from the left and from the bottom of the page."""

    text: str
    left: float
    right: float
    base: float
    height: float
    """Height of its letters, from the lowest to the highest that the font has."""
    first_width: float = 0.0
    """Width of its first word."""
    second: float = 0.0
    """Left end of its second word."""
    cells: tuple[float, ...] = ()
    """Left ends of what follows wide gaps."""
    is_spread: bool = False
    """True if all its words are as far from each other, so that wide gaps are those of justified text."""
    is_code: bool = False
    """True if all its letters are as wide."""


def read_lines(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> list[Line]:
    """Return the lines of a page in the order in which they are read.

    Args:
        text_page: whose characters have places.
        text: of the page.
        indexes: of the characters in the page, by their places in the text.
    """
    if not indexes:
        return lines_without_places(text)
    boxes = read_boxes(text_page, indexes.values())
    edits = list(_find_gaps(text, indexes, boxes))
    if edits:
        text, indexes = replace_parts(text, indexes, edits)
    pieces = [
        piece
        for span in _spans(text, indexes, boxes)
        if (piece := _measure(text_page, text, indexes, span=span, boxes=boxes))
    ]
    ordered = order_columns(list(_join_level(pieces)))
    return [_line_of(text_page, text, indexes, piece=piece, boxes=boxes) for piece in ordered]


def lines_without_places(text: str) -> list[Line]:
    """Return the lines of a text as a typewriter would place them."""
    lines = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
        if line.strip():
            plain, left = line.strip(), (len(line) - len(line.lstrip())) * _WIDTH_OF_LETTER
            first, _, _ = plain.partition(" ")
            width = len(first) * _WIDTH_OF_LETTER
            lines.append(
                Line(
                    plain,
                    left,
                    left + len(plain) * _WIDTH_OF_LETTER,
                    -number * _LEADING,
                    1.0,
                    first_width=width,
                    second=left + width + _WIDTH_OF_LETTER,
                )
            )
    return lines


def _find_gaps(text: str, indexes: Mapping[int, int], boxes: Mapping[int, Box]) -> Iterator[tuple[int, int, str]]:
    """Yield where a space has to be added or taken out, with what replaces it."""
    glued: list[int] = []
    parted: list[tuple[int, int]] = []
    letters = spaces = 0
    places = iter(indexes.items())
    before, index = next(places)
    left, right, bottom, top = boxes[index]
    for at, at_index in places:
        next_left, next_right, next_bottom, next_top = boxes[at_index]
        height, gap, distance = top - bottom, next_left - right, at - before
        if next_left < left or not -height < 2 * (next_bottom - bottom) < height or distance > 2:
            yield from _edits(text, glued, parted, letters=letters, spaces=spaces)
            glued, parted, letters, spaces = [], [], 0, 0
        elif distance == 1:
            letters += 1
            if gap > _GAP_OF_WORDS * height and gap > _GAP_OF_WORDS * (next_top - next_bottom):
                glued.append(at)
        else:
            spaces += 1
            is_level = abs(next_bottom - bottom) + abs(next_top - top) < _GAP_OF_LETTERS * height
            if gap < _GAP_OF_LETTERS * height and is_level and text[before].isalpha() and text[at].isalpha():
                parted.append((before + 1, at))
        before = at
        left, right, bottom, top = next_left, next_right, next_bottom, next_top
    yield from _edits(text, glued, parted, letters=letters, spaces=spaces)


def _edits(
    text: str, glued: Sequence[int], parted: Sequence[tuple[int, int]], *, letters: int, spaces: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of a line, unless its letters are spread, or its font says wrongly how wide they are."""
    edits: list[tuple[int, int, str]] = []
    if len(glued) <= _MOST_GAPS * letters:
        edits += [(at, at, " ") for at in glued if not _WITHOUT_SPACES.search(text[at - 1 : at + 1])]
    if len(parted) <= _MOST_GAPS * spaces:
        edits += [(*span, "") for span in parted]
    yield from sorted(edits)


def _spans(text: str, indexes: Mapping[int, int], boxes: Mapping[int, Box]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each line. A hyphen at the end of a line, after which pdfium ends none, is its last."""
    begin = 0
    for end in _END_OF_LINE.finditer(text):
        if not end[0].endswith("\n") and not _ends_line(end.start(), indexes, boxes):
            continue
        yield begin, end.start() if end[0].endswith("\n") else end.end()
        begin = end.end()
    yield begin, len(text)


def _ends_line(hyphen: int, indexes: Mapping[int, int], boxes: Mapping[int, Box]) -> bool:
    before, after = indexes.get(hyphen), indexes.get(hyphen + 1)
    if before is None or after is None:
        return False
    _, right, bottom, top = boxes[before]
    left, _, next_bottom, _ = boxes[after]
    return left < right - (top - bottom) or abs(next_bottom - bottom) > (top - bottom) / 2


def _measure(
    text_page: "PdfTextPage",
    text: str,
    indexes: Mapping[int, int],
    *,
    span: tuple[int, int],
    boxes: Mapping[int, Box],
) -> LinePart | None:
    """Return a line with its place and its wide gaps; None for a blank one."""
    places = [at for at in range(*span) if at in indexes]
    if not places:
        return None
    of_line = [boxes[indexes[at]] for at in places]
    first, last = of_line[0], of_line[-1]
    middle = of_line[len(of_line) // 2]
    height = max(each[3] - each[2] for each in (first, middle, last))
    tallest = first if first[3] - first[2] >= _SMALL * height else middle
    base = place_of(text_page, indexes[places[of_line.index(tallest)]]).y
    gaps = [
        (after, box[1], next_box[0])
        for (box, next_box), after in zip(pairwise(of_line), places[1:], strict=True)
        if next_box[0] - box[1] > WIDE_GAP * height
    ]
    begin, end = span
    shown = text[begin:end]
    begin, end = begin + len(shown) - len(shown.lstrip()), begin + len(shown.rstrip())
    return LinePart(begin, end, min(of_line)[0], max(map(itemgetter(1), of_line)), base, height, gaps)


def _join_level(pieces: Sequence[LinePart]) -> Iterator[LinePart]:
    """Yield the lines of a page; pdfium ends some at a raised character, or where the font changes."""
    joined: LinePart | None = None
    for piece in pieces:
        if joined is not None and _is_level(joined, piece):
            joined = joined.joined(piece)
            continue
        if joined is not None:
            yield joined
        joined = piece
    if joined is not None:
        yield joined


def _is_level(before: LinePart, piece: LinePart) -> bool:
    gap, step = piece.left - before.right, abs(piece.base - before.base)
    is_beside = -_GAP_OF_WORDS * before.height <= gap <= WIDE_GAP * before.height / 2
    is_mark = piece.end - piece.start <= _LONGEST_MARK and piece.height <= _SMALL * before.height
    return is_beside and (step <= _SAME_LINE * before.height or (is_mark and step <= _RAISED * before.height))


def _line_of(
    text_page: "PdfTextPage", text: str, indexes: Mapping[int, int], *, piece: LinePart, boxes: Mapping[int, Box]
) -> Line:
    start, end = piece.start, piece.end
    own = {at - start: index for at in range(start, end) if (index := indexes.get(at)) is not None}
    shown = text[start:end].rstrip()
    if ends := list(_END_OF_LINE.finditer(shown)):
        shown, own = _without_ends(shown, own, ends=ends, boxes=boxes)
    words = shown.split(" ", 2)
    second = len(words[0]) + 1
    first_end = own.get(len(words[0]) - 1)
    return Line(
        mark_raised(text_page, shown, own) if _DIGIT_AFTER_SOMETHING.search(shown) else shown,
        piece.left,
        piece.right,
        piece.base,
        piece.height,
        first_width=boxes[first_end][1] - piece.left if first_end is not None else 0.0,
        second=boxes[own[second]][0] if second in own else 0.0,
        cells=tuple(gap[2] for gap in piece.gaps),
        is_spread=bool(piece.gaps) and _is_spread([boxes[index] for index in own.values()], piece.height),
        is_code=_is_code(shown, list(own.values()), boxes),
    )


def _without_ends(
    shown: str, own: dict[int, int], *, ends: Sequence[re.Match[str]], boxes: Mapping[int, Box]
) -> tuple[str, dict[int, int]]:
    """Return a line without the ends of lines within it, which is a space where there is a gap."""
    edits = []
    for each in ends:
        if not each[0].endswith("\n"):
            continue
        before, after = own.get(each.start() - 1), own.get(each.end())
        is_spaced = shown[each.start() - 1].isspace() or shown[each.end() : each.end() + 1].isspace()
        is_gap = not is_spaced and (
            before is None
            or after is None
            or boxes[after][0] - boxes[before][1] > _GAP_OF_WORDS * (boxes[before][3] - boxes[before][2])
        )
        edits.append((*each.span(), " " if is_gap else ""))
    text, indexes = replace_parts(shown, own, edits)
    return text, dict(indexes)


def _is_spread(boxes: Sequence[Box], height: float) -> bool:
    gaps = [after[0] - box[1] for box, after in pairwise(boxes)]
    words = [gap for gap in gaps if gap > _GAP_OF_WORDS * height]
    return min(words, default=0.0) >= _SAME_GAP * max(words, default=0.0)


def _is_code(text: str, indexes: Sequence[int], boxes: Mapping[int, Box]) -> bool:
    """Return whether the letters of a line are as wide as each other."""
    first = {round(boxes[index][1] - boxes[index][0], 1) for index in indexes[:_FIRST_LETTERS]}
    if len(first) > _FEW_WIDTHS or len(set(text)) < _LEAST_LETTERS:
        return False
    widths = sorted(boxes[index][1] - boxes[index][0] for index in indexes)
    tenth = len(widths) // 10
    _, _, bottom, top = boxes[indexes[0]]
    return widths[-tenth - 1] - widths[tenth] <= _DIFFERENT_WIDTHS * (top - bottom)
