"""Finds raised and lowered digits of a page by size and place: a PDF does not say that `106` is a power of ten."""

import re
from collections.abc import Iterator, Mapping
from ctypes import c_double
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.text.superscripts import plain_fractions, subscript, superscript

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_AFTER_SOMETHING: Final = re.compile(r"(?<=\S)[0-9+\u2212-]")
_CONTINUES: Final = re.compile(r"[0-9A-Za-z.,+\u2212-]")
_OTHER_LINE: Final = re.compile(r"\r?\n(?P<space>[ ]?)(?=\S)")
_MOST_CONTINUED: Final = 8
_SMALL: Final = 0.87
"""Height of a raised or lowered character, as a share of the one before it, at most."""
_RAISED: Final = 0.15
_LOWERED: Final = -0.07
"""Shares of the height by which the base line moves at least; at most by `_FARTHEST`."""
_FARTHEST: Final = 0.75


@dataclass(frozen=True, slots=True)
class _GlyphPlace:
    x: float
    y: float
    """Height of the base line on the page."""
    height: float

    def shift_from(self, before: "_GlyphPlace") -> float:
        """Return how far this is raised over what stands before it; 0 if it stands on the same line or elsewhere."""
        shift = (self.y - before.y) / before.height if before.height > 0 else 0.0
        is_beside = before.x < self.x and 0 < self.height <= _SMALL * before.height
        is_moved = _RAISED <= shift <= _FARTHEST or -_FARTHEST <= shift <= _LOWERED
        return shift if is_beside and is_moved else 0.0


def mark_raised(text_page: "PdfTextPage", text: str) -> str:
    """Return the text of a page, with `^6` for a raised and `₂` for a lowered number.

    Args:
        text_page: whose characters have places.
        text: of the page, or of a part of it, in the order of its characters.
    """
    indexes = find_indexes(text_page, text)
    written, at = "", 0
    for first, end, shift in _find_shifted(text_page, text, indexes):
        written += text[at:first]
        written += superscript(text[first:end], after=written) if shift > 0 else subscript(text[first:end])
        at = _find_rest(text_page, text, indexes, first=first, end=end)
    return plain_fractions(written + text[at:]) if written else text


def find_indexes(text_page: "PdfTextPage", text: str) -> dict[int, int]:
    """Return the index in the page of each character of a text, apart from white space, which pdfium makes up."""
    # It also writes a hyphen at the end of a line in two ways.
    characters = _characters(text_page).replace("\ufffe", "\2")
    of_page = [index for index, character in enumerate(characters) if not character.isspace()]
    of_text = [index for index, character in enumerate(text) if not character.isspace()]
    start = "".join(characters.split()).find("".join(text.split()))
    return {} if start < 0 else dict(zip(of_text, of_page[start:], strict=False))


def _characters(text_page: "PdfTextPage") -> str:
    """Return all characters of a page, each at its index."""
    from pypdfium2 import raw

    text: str = text_page.get_text_range()
    count = text_page.count_chars()
    if len(text) == count:
        return text
    return "".join(chr(raw.FPDFText_GetUnicode(text_page, index)) for index in range(count))


def _find_shifted(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> Iterator[tuple[int, int, float]]:
    """Yield the begin and the end of each raised or lowered number, and how far it is raised."""
    end = 0
    for found in _AFTER_SOMETHING.finditer(text) if indexes else ():
        first = found.start()
        if first < end:
            continue
        place = _place(text_page, indexes[first])
        shift = place.shift_from(_place(text_page, indexes[first - 1]))
        if not shift:
            continue
        end = first + 1
        while (
            end < min(len(text), first + _MOST_CONTINUED)
            and _CONTINUES.match(text[end])
            and _is_level(_place(text_page, indexes[end]), place)
        ):
            end += 1
        if any(map(str.isdigit, text[first:end])):
            yield first, end, shift


def _find_rest(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int], *, first: int, end: int) -> int:
    """Return where a line goes on after a raised number: pdfium sometimes takes the rest of it for another line."""
    found = _OTHER_LINE.match(text, end)
    if found is None:
        return end
    before, rest = _place(text_page, indexes[first - 1]), _place(text_page, indexes[found.end("space")])
    is_on_line = abs(before.y - rest.y) < abs(_LOWERED) * before.height
    goes_on = is_on_line and before.x < rest.x and rest.height > _SMALL * before.height
    return found.start("space") if goes_on else end


def _is_level(one: _GlyphPlace, other: _GlyphPlace) -> bool:
    return abs(one.y - other.y) < abs(_LOWERED) * other.height and one.height <= other.height / _SMALL


def _place(text_page: "PdfTextPage", index: int) -> _GlyphPlace:
    from pypdfium2 import raw

    box, x, y = raw.FS_RECTF(), c_double(), c_double()
    raw.FPDFText_GetLooseCharBox(text_page, index, box)
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    return _GlyphPlace(x.value, y.value, box.top - box.bottom)
