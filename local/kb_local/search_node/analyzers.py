"""Lucene's analyzers, by the names that Atlas gives them: from a text to the terms it is found under."""

import re
from collections.abc import Callable, Sequence
from typing import Protocol

import Stemmer

from kb_local.search_node.porter import stem
from kb_local.search_node.word_segmentation import split_words

# Also of a text's terms that are not indexed but count as a position, so that phrases keep their distances.
Terms = list[str | None]

# What Lucene's EnglishAnalyzer and StopAnalyzer leave out.
ENGLISH_STOP_WORDS = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    }
)
# Those of Lucene's language analyzers whose words Snowball stems as well, or nearly so.
SNOWBALL_LANGUAGES = (
    *("armenian", "basque", "catalan", "danish", "dutch", "finnish", "french", "german", "hungarian", "italian"),
    *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish"),
)
# Atlas has these, too: they are distinguished from unknown names.
UNSUPPORTED_LANGUAGES = (
    *("arabic", "bengali", "brazilian", "bulgarian", "chinese", "cjk", "czech", "galician", "greek", "hindi"),
    *("indonesian", "irish", "japanese", "korean", "kuromoji", "latvian", "lithuanian", "morfologik", "nori"),
    *("persian", "polish", "smartcn", "sorani", "thai", "turkish", "ukrainian"),
)
UNSUPPORTED = frozenset(f"lucene.{name}" for name in UNSUPPORTED_LANGUAGES)
DEFAULT_ANALYZER = "lucene.standard"

# Texts repeat their words: a word is worked on once, until so many are known that memory matters more.
MOST_KNOWN_WORDS = 200_000

_LETTERS = re.compile(r"[^\W\d_]+")
_POSSESSIVE = re.compile("['\u2019\uff07]s$")


class Analyzer(Protocol):
    def terms(self, text: str) -> Terms:
        """Return the terms of a text, one for each position; None where one was left out."""


class _Words(dict[str, str | None]):
    """Remembers the term of each word."""

    def __init__(self, term_of: Callable[[str], str | None]) -> None:
        super().__init__()
        self._term_of = term_of

    def __missing__(self, word: str) -> str | None:
        if len(self) > MOST_KNOWN_WORDS:
            self.clear()
        term = self[word] = self._term_of(word)
        return term


class SplittingAnalyzer:
    """Changes a text and splits it; every word is a term."""

    def __init__(
        self, split: Callable[[str], list[str]], *, before: Sequence[Callable[[str], str]] = (str.lower,)
    ) -> None:
        self._before = before
        self._split = split

    def terms(self, text: str) -> Terms:
        for change in self._before:
            text = change(text)
        return list(self._split(text))


class FilteringAnalyzer:
    """Changes a text, splits it, and then replaces each word or leaves it out."""

    def __init__(
        self,
        split: Callable[[str], list[str]],
        term_of: Callable[[str], str | None],
        *,
        before: Sequence[Callable[[str], str]] = (str.lower,),
    ) -> None:
        self._before = before
        self._split = split
        self._term_of = _Words(term_of)

    def terms(self, text: str) -> Terms:
        for change in self._before:
            text = change(text)
        term_of = self._term_of
        return [term_of[word] for word in self._split(text)]


class _KeywordAnalyzer:
    def terms(self, text: str) -> Terms:
        return [text]


class _Whitespace:
    def terms(self, text: str) -> Terms:
        return list(text.split())


def without_possessive(word: str) -> str:
    return _POSSESSIVE.sub("", word)


def _english(word: str) -> str | None:
    word = without_possessive(word)
    return None if word in ENGLISH_STOP_WORDS else stem(word)


def stemmer(name: str) -> Callable[[str], str]:
    """Return the stemmer of this name in Lucene's Snowball."""
    stem_word: Callable[[str], str] = Stemmer.Stemmer(name).stemWord
    return stem_word


def _snowball(language: str) -> Analyzer:
    return FilteringAnalyzer(split_words, stemmer(language))


ANALYZERS: dict[str, Analyzer] = {
    DEFAULT_ANALYZER: SplittingAnalyzer(split_words),
    "lucene.keyword": _KeywordAnalyzer(),
    "lucene.simple": SplittingAnalyzer(_LETTERS.findall),
    "lucene.whitespace": _Whitespace(),
    "lucene.english": FilteringAnalyzer(split_words, _english),
    **{f"lucene.{language}": _snowball(language) for language in SNOWBALL_LANGUAGES},
}
