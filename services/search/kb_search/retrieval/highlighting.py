"""Finds the words of a query in the text of a result, as the text index of its KB compares words. Pure.

Atlas's own `highlight` works only in `$search`, so not for what only the vector index found. Here all results are
marked in the same way, from their text alone: words as Lucene splits them (UAX #29), folded, and stemmed by the
Snowball stemmer that the analyzer of the KB uses. Words that are not searched for (`function_words`) are
not marked.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import Stemmer

from kb_search.retrieval.function_words import leave_out_function_words
from kb_shared.mongo.text_analyzers import ELISIONS, ENGLISH_STOP_WORDS
from kb_shared.text.spellings import find_spellings

MAX_CHARACTERS: Final = 40_000
"""Number of characters of all results of an answer that are looked through, best first: about 5 ms."""
_MAX_CHARACTERS_WITH_SPELLINGS: Final = 10_000
"""Number of them that are looked through for other spellings: about 5 ms more."""
MAX_HIGHLIGHTS: Final = 100
"""Greatest number of marked words of a text. Reading all of them would take a person longer than the text."""
_MOST_REMEMBERED: Final = 100_000
"""Number of words whose term is remembered: texts repeat their words."""

_ASCII_WORD: Final = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))[A-Za-z0-9_]+)*"
)


_EXTENDING: Final = frozenset({"Mn", "Mc", "Me", "Cf"})


def _marks() -> str:
    """Return the characters that extend the one before them."""
    return "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in _EXTENDING)


# Words of one character each.
_IDEOGRAPHS: Final = (
    r"\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS: Final = rf"[\u00ad{_marks()}]*+"
_RUN: Final = rf"(?>(?:[^\W{_IDEOGRAPHS}]+{_MARKS})+)"
_LETTER: Final = r"[^\W\d_]"
_WORD: Final = re.compile(
    rf"{_RUN}(?>(?:(?:(?<={_LETTER})[.'\u2019:\u00b7](?={_LETTER})|(?<=\d)[.',;\u2019](?=\d)){_RUN})*)"
    rf"|[{_IDEOGRAPHS}]{_MARKS}"
)
# NFKC_Casefold leaves them out.
_IGNORED: Final = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_POSSESSIVE: Final = re.compile("['\u2019]s$")
TermOf = Callable[[str], str | None]


class _KnownTerms(dict[str, str | None]):
    """Terms of words, as an analyzer makes them; None for a word that is not marked."""

    def __init__(self, term_of: TermOf) -> None:
        super().__init__()
        self._term_of = term_of

    def __missing__(self, word: str) -> str | None:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        term = self[word] = self._term_of(word)
        return term


class Highlighter:
    """Marks the words of one query in texts of KBs with any analyzers."""

    def __init__(self, query: str) -> None:
        self._query = leave_out_function_words(query)
        spellings = [*find_spellings(query, in_query=True)]
        self._wholes = {term for each in spellings for term in each.wholes}
        self._parts = {term for each in spellings for term in each.parts}
        self._left = MAX_CHARACTERS
        self._left_for_spellings = _MAX_CHARACTERS_WITH_SPELLINGS
        self._wanted: dict[str, frozenset[str]] = {}

    def find(self, text: str, analyzer: str, *, has_spellings: bool = False) -> list[tuple[int, int]]:
        """Return where words of the query are in `text`: start and end in characters, at most `MAX_HIGHLIGHTS`.

        Nothing is found after `MAX_CHARACTERS` of all texts together.

        Args:
            text: Text of a result.
            analyzer: Analyzer of its KB.
            has_spellings: True if the KB also finds other spellings.
        """
        wanted = self._wanted.get(analyzer)
        if wanted is None:
            wanted = self._wanted[analyzer] = frozenset(terms_of(self._query, analyzer))
        if not wanted and not self._wholes:
            return []
        text = text[: self._left]
        self._left -= len(text)
        terms = _terms(analyzer)
        found: list[tuple[int, int]] = []
        for word in _words(text):
            if terms[word[0]] in wanted:
                found.append(word.span())
                if len(found) == MAX_HIGHLIGHTS:
                    break
        # Not for plain words, which may be parts of others: to look for these takes ten times as long.
        if has_spellings and (self._wholes or self._parts):
            part = text[: self._left_for_spellings]
            self._left_for_spellings -= len(part)
            found = _merge([*found, *self._find_spelled(part, wanted)])[:MAX_HIGHLIGHTS]
        return found

    def _find_spelled(self, text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
        for spelling in find_spellings(text):
            if not self._wholes.isdisjoint(spelling.wholes) or any(
                part in wanted or part in self._parts for part in spelling.parts
            ):
                yield spelling.start, spelling.end


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in their order; those that overlap are one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def terms_of(text: str, analyzer: str) -> list[str]:
    """Return the terms of a text, without stop words."""
    terms = _terms(analyzer)
    return [term for word in _words(text) if (term := terms[word[0]]) is not None]


def _words(text: str) -> Iterator[re.Match[str]]:
    return (_ASCII_WORD if text.isascii() else _WORD).finditer(text)


@cache
def _terms(analyzer: str) -> _KnownTerms:
    """Return the terms of an analyzer; there are as many as `TextAnalyzer` has names."""
    language = analyzer.removeprefix("lucene.")
    if language == "standard":
        return _KnownTerms(lambda word: _unless_stop_word(_fold(word)))
    # Lucene's analyzer of English has the older stemmer.
    stem = Stemmer.Stemmer("porter" if language == "english" else language).stemWord
    if language == "english":
        return _KnownTerms(lambda word: _english(word, stem))
    if language in ELISIONS:
        elision = re.compile(f"^(?:{ELISIONS[language]})['\u2019]")
        return _KnownTerms(lambda word: stem(elision.sub("", _fold(word))))
    return _KnownTerms(lambda word: stem(_fold(word)))


def _english(word: str, stem: Callable[[str], str]) -> str | None:
    kept = _unless_stop_word(_POSSESSIVE.sub("", _fold(word)))
    return None if kept is None else stem(kept)


def _unless_stop_word(word: str) -> str | None:
    return None if word in ENGLISH_STOP_WORDS else word


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", _IGNORED.sub("", unicodedata.normalize("NFKC", word).casefold()))
