"""Finds the characters of a text on the page that shows it, and where they stand."""

import re
from collections.abc import Iterable
from ctypes import byref, c_double, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_LOW_SURROGATES: Final = range(0xDC00, 0xE000)
"""Second halves of characters beyond U+FFFF, which pdfium counts as two."""
_HYPHEN_OR_NOTHING: Final = re.compile("\ufffe")


@dataclass(frozen=True, slots=True)
class GlyphPlace:
    x: float
    y: float
    """Height of the base line on the page."""
    left: float
    right: float
    height: float


Box = tuple[float, float, float, float]
"""Left, right, bottom and top of a character, as wide and as high as its font makes room for it."""


def read_boxes(text_page: "PdfTextPage", indexes: Iterable[int]) -> dict[int, Box]:
    """Return where characters stand, by their indexes. A page has thousands, so this calls pdfium itself."""
    from pypdfium2 import raw

    wanted, page, read = list(indexes), text_page.raw, raw.FPDFText_GetLooseCharBox
    found = (raw.FS_RECTF * len(wanted))()
    first = found[0]
    for index, at in zip(wanted, range(0, sizeof(found), sizeof(raw.FS_RECTF)), strict=True):
        read(page, index, byref(first, at))
    left, top, right, bottom = (memoryview(found).cast("B").cast("f").tolist()[side::4] for side in range(4))
    return dict(zip(wanted, zip(left, right, bottom, top, strict=True), strict=True))


def place_of(text_page: "PdfTextPage", index: int) -> GlyphPlace:
    """Return where the character with an index stands."""
    from pypdfium2 import raw

    box, x, y, pointer = raw.FS_RECTF(), c_double(), c_double(), text_page.raw
    raw.FPDFText_GetLooseCharBox(pointer, index, byref(box))
    raw.FPDFText_GetCharOrigin(pointer, index, byref(x), byref(y))
    return GlyphPlace(x.value, y.value, box.left, box.right, box.top - box.bottom)


def find_indexes(text_page: "PdfTextPage", text: str) -> dict[int, int]:
    """Return the index in the page of each character of a text, apart from white space, which pdfium makes up."""
    indexes, shown = _characters(text_page)
    of_text = [at for at, character in enumerate(text) if not character.isspace()]
    wanted = "".join(text.split())
    # pdfium writes a hyphen at the end of a line in two ways.
    start = shown.replace("\ufffe", "\2").find(wanted.replace("\ufffe", "\2"))
    return {} if start < 0 else dict(zip(of_text, indexes[start:], strict=False))


def _characters(text_page: "PdfTextPage") -> tuple[list[int], str]:
    """Return the indexes of the characters of a page, and these, without white space and those that have no letter."""
    from pypdfium2 import raw

    text: str = text_page.get_text_range()
    if len(text) == text_page.count_chars():
        # In this text, what has no letter looks as a hyphen at the end of a line does.
        text = _HYPHEN_OR_NOTHING.sub(
            lambda found: found[0] if raw.FPDFText_GetUnicode(text_page, found.start()) else " ", text
        )
        return [index for index, character in enumerate(text) if not character.isspace()], "".join(text.split())
    characters = [each for each in _decode(text_page) if not each[1].isspace()]
    return [index for index, _ in characters], "".join(character for _, character in characters)


def _decode(text_page: "PdfTextPage") -> list[tuple[int, str]]:
    from pypdfium2 import raw

    characters: list[tuple[int, str]] = []
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(text_page, index)
        if code in _LOW_SURROGATES and characters:
            first, high = characters[-1]
            pair = (high + chr(code)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            characters[-1] = first, pair[0]
        elif code:
            characters.append((index, chr(code)))
    return characters
