"""Atlas's character filter `icuNormalize`: NFKC_Casefold, Lucene's ICUNormalizer2CharFilter as it is by default.

Letters are lower-cased, compatibility characters such as ligatures and full-width forms become the characters they
stand for, and invisible characters, such as soft hyphens and zero-width joiners, are removed.
"""

import unicodedata

import regex

_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")


class _Folds(dict[int, str]):
    """Folding of each character, computed when it is first met."""

    def __missing__(self, code_point: int) -> str:
        folded = self[code_point] = _folded(chr(code_point))
        return folded


_FOLDS = _Folds()


def icu_normalize(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text.translate(_FOLDS))


def _folded(character: str) -> str:
    """Return the NFKC_CF property of a character, as the Unicode standard derives it (3.13, R5 and D147)."""
    folded = unicodedata.normalize("NFD", character)
    for _ in range(2):
        folded = unicodedata.normalize("NFKC", folded.casefold())
    seen: str = _IGNORABLE.sub("", folded)
    return seen
