"""Finds raised and lowered digits of a page by size and place: a PDF does not say that `106` is a power of ten."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.pdf.characters import GlyphPlace, place_of
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


def mark_raised(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> str:
    """Return the text of a page, with `^6` for a raised and `₂` for a lowered number.

    Args:
        text_page: whose characters have places.
        text: of the page, or of a part of it.
        indexes: of the characters in the page, by their places in the text.
    """
    written, at = "", 0
    for first, end, shift in _find_shifted(text_page, text, indexes):
        written += text[at:first]
        written += superscript(text[first:end], after=written) if shift > 0 else subscript(text[first:end])
        at = _find_rest(text_page, text, indexes, first=first, end=end)
    return plain_fractions(written + text[at:]) if written else text


def _shift(place: GlyphPlace, *, before: GlyphPlace) -> float:
    """Return how far a glyph is raised over the one before it; 0 if it stands on the same line or elsewhere."""
    shift = (place.y - before.y) / before.height if before.height > 0 else 0.0
    is_beside = before.x < place.x and 0 < place.height <= _SMALL * before.height
    is_moved = _RAISED <= shift <= _FARTHEST or -_FARTHEST <= shift <= _LOWERED
    return shift if is_beside and is_moved else 0.0


def _find_shifted(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> Iterator[tuple[int, int, float]]:
    """Yield the begin and the end of each raised or lowered number, and how far it is raised."""
    end = 0
    for found in _AFTER_SOMETHING.finditer(text) if indexes else ():
        first = found.start()
        if first < end:
            continue
        place = place_of(text_page, indexes[first])
        shift = _shift(place, before=place_of(text_page, indexes[first - 1]))
        if not shift:
            continue
        end = first + 1
        while (
            end < min(len(text), first + _MOST_CONTINUED)
            and _CONTINUES.match(text[end])
            and _is_level(place_of(text_page, indexes[end]), place)
        ):
            end += 1
        if any(map(str.isdigit, text[first:end])):
            yield first, end, shift


def _find_rest(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int], *, first: int, end: int) -> int:
    """Return where a line goes on after a raised number: pdfium sometimes takes the rest of it for another line."""
    found = _OTHER_LINE.match(text, end)
    if found is None:
        return end
    before, rest = place_of(text_page, indexes[first - 1]), place_of(text_page, indexes[found.end("space")])
    is_on_line = abs(before.y - rest.y) < abs(_LOWERED) * before.height
    goes_on = is_on_line and before.x < rest.x and rest.height > _SMALL * before.height
    return found.start("space") if goes_on else end


def _is_level(one: GlyphPlace, other: GlyphPlace) -> bool:
    return abs(one.y - other.y) < abs(_LOWERED) * other.height and one.height <= other.height / _SMALL
