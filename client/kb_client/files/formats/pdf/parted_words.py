"""Joins words that a page draws in parts: by a large initial over several lines, or with gaps between all letters."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.pdf.characters import find_indexes, place_of

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_INITIAL: Final = re.compile(r"(?<![^\n])(?P<letter>[^\W\d_])[ ]?\r?\n")
_BEGIN_OF_LINE: Final = re.compile(r"(?<![^\n])[^\W\d_]+")
_SPACED: Final = re.compile(r"(?<!\S)(?:[^\W\d_] ){3,}[^\W\d_](?!\S)")
_WIDEST_GAP: Final = 0.6
"""Distance between two letters of a word at most, as a share of their height."""
_MOST_INITIALS: Final = 20
"""Initials of a page."""
_LARGE: Final = 1.6
"""Height of an initial, as a share of that of its word, at least."""
_TOUCHES: Final = 0.1
"""Share of its height by which an initial may reach into its word."""


def join_spaced(text_page: "PdfTextPage", text: str) -> str:
    """Return the text of a page, in which letters with gaps between them are words."""
    if not _SPACED.search(text):
        return text
    indexes = find_indexes(text_page, text)
    return _SPACED.sub(lambda found: _join_spaced(text_page, found, indexes), text) if indexes else text


def join_initials(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> tuple[str, Mapping[int, int]]:
    """Return the text of a page with large initials at the begin of their words, and the indexes of its characters.

    Args:
        text_page: whose characters have places.
        text: of the page.
        indexes: of the characters in the page, by their places in the text.
    """
    initials = [each for each in _INITIAL.finditer(text) if each["letter"].isupper()] if indexes else []
    edits: list[tuple[int, int, str]] = []
    for initial in initials[:_MOST_INITIALS]:
        if rest := _find_rest(text_page, text, indexes, initial=initial):
            edits += [(*initial.span(), ""), (rest.start(), rest.start(), initial["letter"])]
    return replace_parts(text, indexes, sorted(edits)) if edits else (text, indexes)


def replace_parts(
    text: str, indexes: Mapping[int, int], edits: Sequence[tuple[int, int, str]]
) -> tuple[str, Mapping[int, int]]:
    """Return the text with other parts, each given by begin, end and what is written there, and the indexes in it."""
    written, moved = "", {}
    ends = [end for _, end, _ in edits]
    for at, (begin, _, new) in zip([0, *ends], [*edits, (len(text), len(text), "")], strict=True):
        moved.update({len(written) + place - at: indexes[place] for place in range(at, begin) if place in indexes})
        written += text[at:begin] + new
    return written, moved


def _join_spaced(text_page: "PdfTextPage", found: re.Match[str], indexes: Mapping[int, int]) -> str:
    """Return letters without the spaces that pdfium has made up, unless these are as wide as between words."""
    places = range(found.start(), found.end(), len("A "))
    gaps = (_is_gap(text_page, indexes[before], indexes[at]) for before, at in pairwise(places))
    return found[0][0] + "".join(
        f"{'' if gap else ' '}{letter}" for gap, letter in zip(gaps, found[0][2::2], strict=True)
    )


def _is_gap(text_page: "PdfTextPage", before: int, index: int) -> bool:
    from pypdfium2 import raw

    is_made_up = all(raw.FPDFText_IsGenerated(text_page, between) == 1 for between in range(before + 1, index))
    first, second = place_of(text_page, before), place_of(text_page, index)
    return is_made_up and second.left - first.right <= _WIDEST_GAP * first.height


def _find_rest(
    text_page: "PdfTextPage", text: str, indexes: Mapping[int, int], *, initial: re.Match[str]
) -> re.Match[str] | None:
    """Return the beginning of the first line beside a large initial, which need not follow it in the file."""
    letter = place_of(text_page, indexes[initial.start()])
    beside: list[tuple[float, re.Match[str]]] = []
    for line in _BEGIN_OF_LINE.finditer(text):
        place = place_of(text_page, indexes[line.start()])
        gap = (place.left - letter.right) / letter.height if letter.height else 1.0
        is_beside = -_TOUCHES <= gap <= _WIDEST_GAP and letter.y <= place.y <= letter.y + letter.height
        if is_beside and letter.height >= _LARGE * place.height:
            beside.append((place.y, line))
    first = max(beside, key=lambda each: each[0], default=None)
    return first[1] if first and first[1][0][0].islower() else None
