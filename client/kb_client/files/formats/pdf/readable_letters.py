"""Tells texts from characters that only look like one: those of fonts that don't say which letters their glyphs are."""

import unicodedata
from typing import Final

_LEAST_CHARACTERS: Final = 10
_MOST_UNREADABLE: Final = 0.2
_HYPHENS_OF_PDFIUM: Final = "\x02\ufffe"
_NO_LETTERS: Final = frozenset({"Cc", "Cn", "Co", "Cs"})
"""Categories of Unicode: controls, unassigned, private, surrogates."""
_SHIFT: Final = 29
"""Distance between ASCII and the numbers of glyphs in most fonts, which are taken for letters where nothing else is."""
_LEAST_LETTERS: Final = 100
_MOST_SMALL_LETTERS: Final = 0.05
_MOST_VOWELS_OF_NOISE: Final = 0.2
_FEWEST_VOWELS_OF_A_TEXT: Final = 0.3
_VOWELS: Final = frozenset("aeiouAEIOU")
_FREQUENT: Final = frozenset("etaoinsrhldu")
"""Letters that make up most of a text in any language with Latin letters: 60 % in Polish, 80 % in English."""
_LEAST_FREQUENT: Final = 0.58
_LEAST_LETTERS_OF_WORDS: Final = 30


def is_readable(text: str) -> bool:
    """Return whether the characters of a page are letters that a reader sees on it."""
    characters = [each for each in text if not each.isspace() and each not in _HYPHENS_OF_PDFIUM]
    if len(characters) < _LEAST_CHARACTERS:
        return True
    unreadable = sum(each == "\ufffd" or unicodedata.category(each) in _NO_LETTERS for each in characters)
    return unreadable <= _MOST_UNREADABLE * len(characters) and not _are_numbers_of_glyphs(characters)


def reads_as_words(text: str) -> bool:
    """Return whether Latin letters are as frequent as in words, so that they are those that a reader sees.

    TeX and old programs embed fonts that don't say which letters they show, and use the usual codes for them.
    """
    plain = unicodedata.normalize("NFD", text).lower()
    letters = [each for each in plain if each.isalpha()]
    if len(letters) < _LEAST_LETTERS_OF_WORDS:
        return False
    frequent = sum(each in _FREQUENT for each in letters)
    return frequent >= _LEAST_FREQUENT * len(letters) and _vowels(letters) >= _FEWEST_VOWELS_OF_A_TEXT


def _are_numbers_of_glyphs(characters: list[str]) -> bool:
    """Return whether the letters are words only after each has been shifted, as in `7KLV LV WH[W` (`This is text`)."""
    letters = [each for each in characters if each.isascii() and each.isalpha()]
    if len(letters) < _LEAST_LETTERS or sum(map(str.islower, letters)) > _MOST_SMALL_LETTERS * len(letters):
        return False
    shifted = [chr(ord(each) + _SHIFT) for each in letters]
    return _vowels(letters) <= _MOST_VOWELS_OF_NOISE and _vowels(shifted) >= _FEWEST_VOWELS_OF_A_TEXT


def _vowels(letters: list[str]) -> float:
    return sum(each in _VOWELS for each in letters) / len(letters)
