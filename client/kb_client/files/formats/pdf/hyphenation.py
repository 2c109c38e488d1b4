"""Joins words that were hyphenated at the ends of lines and of pages, and keeps the hyphens that belong to a word."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.pdf.characters import find_indexes, place_of

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_MARK: Final = re.compile(r"(?P<before>[^\W\d_]+)(?:[\x02\ufffe]|[-\u2010\u00ad]\n)(?P<after>[^\W\d_]+)")
"""A hyphen at the end of a line. pdfium writes most of them as U+0002 or U+FFFE, without the line end."""
_OTHER_MARK: Final = re.compile(r"[\x02\ufffe]")
_OWN_HYPHEN: Final = re.compile(r"[\x02\ufffe\u00ad]")
_FARTHEST_LINE: Final = 3
"""Distance of a line from the next one at most, in heights of its characters. What is farther is the foot of a page."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_END_OF_PAGE: Final = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]\s*\Z")
_REST_OF_WORD: Final = re.compile(r"\s*(?P<rest>[^\W\d_]\S*)\s?")
_HYPHENS: Final = frozenset("-\u2010\u2011")
_SHORTEST_WORD_OF_COMPOUND: Final = 4
_SMALL_WORDS: Final = frozenset({"of", "to", "the", "by", "and", "for"})
"""Words within compounds such as `state-of-the-art`."""
_BETWEEN_PARTS: Final = frozenset({"und", "oder", "bzw", "sowie", "and", "or", "nor", "et", "ou", "och", "og", "eller"})
"""Words after a part of a compound whose rest follows later, such as `Vor- und Nachteile`."""


def read_hyphens(text_page: "PdfTextPage", text: str) -> str:
    """Return the text of a page, in which hyphens within lines are such, and those before the foot of it end a line.

    Fonts often say that their hyphen is a soft one. What is drawn within a line is none.
    """
    found = list(_OWN_HYPHEN.finditer(text))
    indexes = find_indexes(text_page, text) if found else {}
    written, at = "", 0
    for each in found:
        place = each.start()
        after = next((other for other in range(place + 1, min(place + 3, len(text))) if other in indexes), None)
        if place not in indexes or after is None:
            continue
        hyphen = each[0]
        if hyphen == "\u00ad":
            hyphen = "-" if _is_drawn(text_page, indexes[place]) and after == place + 1 else hyphen
        elif _is_far(text_page, indexes[place], indexes[after]):
            hyphen = "-\n"
        written += text[at:place] + hyphen
        at = place + 1
    return written + text[at:]


def join_hyphenated(pages: Iterable[str]) -> list[str]:
    """Join the halves of words on each page, and keep the hyphens of compounds as far as the document shows them."""
    texts = _join_pages(list(pages))
    words = {word.lower() for text in texts for word in _WORD.findall(_MARK.sub(" ", text))}

    def join(found: re.Match[str]) -> str:
        before, after = found["before"], found["after"]
        if _is_part(before, after, words):
            return f"{before}- {after}"
        beside = found.string[found.start() - 1 : found.start()] + found.string[found.end() : found.end() + 1]
        return f"{before}-{after}" if _is_compound(before, after, words, beside=beside) else before + after

    return [_OTHER_MARK.sub("-", _MARK.sub(join, text)).replace("\u00ad", "") for text in texts]


def _join_pages(texts: list[str]) -> list[str]:
    """Bring the rest of a word to the page on which it begins."""
    filled = [at for at, text in enumerate(texts) if text.strip()]
    for at, after in pairwise(filled):
        end, begin = _END_OF_PAGE.search(texts[at]), _REST_OF_WORD.match(texts[after])
        if end and begin and begin["rest"][0].islower():
            texts[at] = f"{texts[at][: end.start()]}\x02{begin['rest']}"
            texts[after] = texts[after][begin.end() :]
    return texts


def _is_part(before: str, after: str, words: set[str]) -> bool:
    """Return whether a hyphen stands for the rest of a compound that follows later."""
    return after in _BETWEEN_PARTS and len(before) > 1 and (before + after).lower() not in words


def _is_compound(before: str, after: str, words: set[str], *, beside: str) -> bool:
    """Decide whether a word has a hyphen of its own, such as `self-made`, `X-Ray`, `XML-based`, `user-supplied`.

    Args:
        before: letters before the hyphen.
        after: letters after it.
        words: of the document, in small letters.
        beside: what stands before and after all of these letters.
    """
    halves = (before.lower(), after.lower())
    if "-".join(halves) in words:
        return True
    if "".join(halves) in words:
        return False
    # No program leaves a single letter at the end of a line.
    if after[0].isupper() or before.isupper() or (len(before) == 1 and before.isascii()):
        return True
    if not _HYPHENS.isdisjoint(beside) and not _SMALL_WORDS.isdisjoint(halves):
        return True
    return min(map(len, halves)) >= _SHORTEST_WORD_OF_COMPOUND and all(half in words for half in halves)


def _is_drawn(text_page: "PdfTextPage", index: int) -> bool:
    left, bottom, right, top = text_page.get_charbox(index)
    return bool(right > left and top > bottom)


def _is_far(text_page: "PdfTextPage", index: int, after: int) -> bool:
    place = place_of(text_page, index)
    return place.y - place_of(text_page, after).y > _FARTHEST_LINE * place.height
