"""Finds the characters of a text on the page that shows it, and where they stand."""

from ctypes import c_double
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_LOW_SURROGATES: Final = range(0xDC00, 0xE000)
"""Second halves of characters beyond U+FFFF, which pdfium counts as two."""


@dataclass(frozen=True, slots=True)
class GlyphPlace:
    x: float
    y: float
    """Height of the base line on the page."""
    left: float
    right: float
    height: float


def place_of(text_page: "PdfTextPage", index: int) -> GlyphPlace:
    """Return where the character with an index stands."""
    from pypdfium2 import raw

    box, x, y = raw.FS_RECTF(), c_double(), c_double()
    raw.FPDFText_GetLooseCharBox(text_page, index, box)
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    return GlyphPlace(x.value, y.value, box.left, box.right, box.top - box.bottom)


def find_indexes(text_page: "PdfTextPage", text: str) -> dict[int, int]:
    """Return the index in the page of each character of a text, apart from white space, which pdfium makes up."""
    of_page = [(index, character) for index, character in _characters(text_page) if not character.isspace()]
    of_text = [at for at, character in enumerate(text) if not character.isspace()]
    shown, wanted = "".join(character for _, character in of_page), "".join(text.split())
    # pdfium writes a hyphen at the end of a line in two ways.
    start = shown.replace("\ufffe", "\2").find(wanted.replace("\ufffe", "\2"))
    return {} if start < 0 else dict(zip(of_text, (index for index, _ in of_page[start:]), strict=False))


def _characters(text_page: "PdfTextPage") -> list[tuple[int, str]]:
    """Return the characters of a page with their indexes, without those that have no letter."""
    from pypdfium2 import raw

    text: str = text_page.get_text_range()
    count = text_page.count_chars()
    # In this text, what has no letter looks as a hyphen at the end of a line does.
    if len(text) == count and "\ufffe" not in text:
        return list(enumerate(text))
    characters: list[tuple[int, str]] = []
    for index in range(count):
        code = raw.FPDFText_GetUnicode(text_page, index)
        if code in _LOW_SURROGATES and characters:
            first, high = characters[-1]
            pair = (high + chr(code)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            characters[-1] = first, pair[0]
        elif code:
            characters.append((index, chr(code)))
    return characters
