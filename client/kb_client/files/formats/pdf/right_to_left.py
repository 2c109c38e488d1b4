"""Puts letters of Arabic and Hebrew words in the order in which they are read: pdfium leaves some as they are drawn."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from unicodedata import combining

from kb_client.files.formats.pdf.characters import GlyphPlace, place_of

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_WORD: Final = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]{2,}")

_ALEF_LAM: Final = re.compile(r"([\u0622\u0623\u0625\u0627])(\u0644)")
"""Letters that one glyph shows, in the wrong order: pdfium turns the line around without regard for glyphs."""


def order_right_to_left(text_page: "PdfTextPage", text: str, indexes: Mapping[int, int]) -> str:
    """Return the text of a page, in which the first letter of each such word is the one that stands farthest right.

    Args:
        text_page: whose characters have places.
        text: of the page.
        indexes: of the characters in the page, by their places in the text.
    """

    def order(found: re.Match[str]) -> str:
        places = [place_of(text_page, indexes[at]) for at in range(*found.span())]
        glyphs = _join_glyphs(found[0], places)
        steps = [after.x - before.x for (_, before), (_, after) in pairwise(glyphs)]
        is_drawn_from_left = sum(step > 0 for step in steps) > sum(step < 0 for step in steps)
        ordered = reversed(glyphs) if is_drawn_from_left else glyphs
        return "".join(_ALEF_LAM.sub(r"\2\1", letters) for letters, _ in ordered)

    return _WORD.sub(order, text) if indexes else text


def _join_glyphs(word: str, places: list[GlyphPlace]) -> list[tuple[str, GlyphPlace]]:
    """Return the letters that one glyph shows, with their place; marks stay with the letter that they are on."""
    glyphs: list[tuple[str, GlyphPlace]] = []
    for letter, place in zip(word, places, strict=True):
        if glyphs and (combining(letter) or place.x == glyphs[-1][1].x):
            glyphs[-1] = glyphs[-1][0] + letter, glyphs[-1][1]
        else:
            glyphs.append((letter, place))
    return glyphs
