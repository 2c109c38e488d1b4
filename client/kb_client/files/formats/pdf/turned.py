"""Reads pages whose lines run in another direction: pdfium puts those in a wrong order, and joins their words."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from math import pi
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.pdf.characters import find_indexes, place_of

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_CHECKED_CHARACTERS: Final = 200
_COSINE_AND_SINE: Final = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Cosine and sine of the turns that put lines upright, by the number of quarters that they are turned to the right."""
_OTHER_LINE: Final = 0.5
"""Share of its height by which a character stands beside the line before it, at least."""

_Box = tuple[float, float, float, float]


@contextmanager
def upright_text(page: "PdfPage") -> "Iterator[tuple[PdfTextPage, _Box, bool]]":
    """Open the text of a page that is turned, for that time, so that most of its lines run from left to right.

    Yields:
        the text, left, bottom, right and top of the turned page, and whether some lines may run up or down.
    """
    rotation = page.get_rotation()
    with closing(page.get_textpage()) as text_page:
        turns = Counter(_sample(text_page))
        counts = turns.most_common(1)
        quarters = counts[0][0] if counts else 0
        if not rotation and not quarters:
            yield text_page, page.get_bbox(), len(turns) > 1
            return
    cosine, sine = _COSINE_AND_SINE[quarters]
    page.set_rotation(0)
    _turn(page, cosine, sine)
    try:
        with closing(page.get_textpage()) as text_page:
            yield text_page, _turn_box(page.get_bbox(), cosine, sine), True
    finally:
        _turn(page, cosine, -sine)
        page.set_rotation(rotation)


def part_sideways(text_page: "PdfTextPage", text: str) -> str:
    """Return the text of a page, in which lines that run upwards or downwards are parted from each other."""
    indexes = find_indexes(text_page, text)
    ends = [
        at
        for before, at in pairwise(indexes)
        if at == before + 1 and _begins_line(text_page, before=indexes[before], index=indexes[at])
    ]
    return "\n".join(text[begin:end] for begin, end in pairwise([0, *ends, len(text)]))


def _turn_box(box: _Box, cosine: int, sine: int) -> _Box:
    left, bottom, right, top = box
    x1, x2 = sorted((cosine * left - sine * bottom, cosine * right - sine * top))
    y1, y2 = sorted((sine * left + cosine * bottom, sine * right + cosine * top))
    return x1, y1, x2, y2


def _turn(page: "PdfPage", cosine: int, sine: int) -> None:
    from pypdfium2 import raw

    if cosine == 1:
        return
    for number in range(raw.FPDFPage_CountObjects(page)):
        raw.FPDFPageObj_Transform(raw.FPDFPage_GetObject(page, number), cosine, sine, -sine, cosine, 0, 0)


def _sample(text_page: "PdfTextPage") -> Iterator[int]:
    """Yield by how many quarters some characters are turned to the right."""
    from pypdfium2 import raw

    count = text_page.count_chars()
    read, angle_of, pointer = raw.FPDFText_GetUnicode, raw.FPDFText_GetCharAngle, text_page.raw
    for index in range(0, count, max(count // _CHECKED_CHARACTERS, 1)):
        if not chr(read(pointer, index)).isspace():
            yield _to_quarters(angle_of(pointer, index))


def _quarters(text_page: "PdfTextPage", index: int) -> int:
    from pypdfium2 import raw

    return _to_quarters(raw.FPDFText_GetCharAngle(text_page, index))


def _to_quarters(angle: float) -> int:
    return round(angle / (pi / 2)) % len(_COSINE_AND_SINE)


def _begins_line(text_page: "PdfTextPage", *, before: int, index: int) -> bool:
    """Return whether a character stands in another line than the one before it, where lines run up or down."""
    if not (_quarters(text_page, before) % 2 and _quarters(text_page, index) % 2):
        return False
    place = place_of(text_page, index)
    return abs(place.x - place_of(text_page, before).x) > _OTHER_LINE * abs(place.right - place.left)
