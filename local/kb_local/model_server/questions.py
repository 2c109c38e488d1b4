"""Reads a question: its words, the codes that it names, and whether it follows another one. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import Stemmer

_MOST_BEFORE: Final = 2
"""Questions before a follow-up that are read with it."""
_LEAST_STEM: Final = 4
_LEAST_SHARE_OF_STEM: Final = 0.7
_MOST_WORDS_OF_REFERENCE: Final = 3
"""Words of a question with a pronoun, above which it says itself what the pronoun means."""

_WORD: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(r"\w[\w./-]*\w|\w")
# Languages without spaces: a pair of characters stands for a word.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")

_STOP_WORDS: Final = frozenset(
    _WORD.findall(
        # English
        " a about an and any are as at be by can could did do does for from get got had has have how i if in"
        " into is it its long many me much my no not of on one or our should so some that the their them then"
        " there these they this those to us was we were what when where which while who whom whose why will"
        " with would you your"
        # German
        " als am an auch auf aus bei bis das dem den der des die du ein eine einem einen einer eines er es"
        " f\u00fcr haben hat ich ihr im ist kann k\u00f6nnen lange man mit muss m\u00fcssen nach nicht noch"
        " oder sich sie sind soll und viel viele vom von wann war warum was welche welchem welchen welcher"
        " welches wer werden wie wieso wird wir wo wurde zu zum zur"
        # French, Spanish, Italian, Dutch, Portuguese
        " au aux avec c ce ces comment d dans de du elle en est et il ils l la le les leur o\u00f9 ou par pas"
        " pour pourquoi qu quand que quel quelle quels quelles qui sont sur un une combien al c\u00f3mo como"
        " con cu\u00e1l cu\u00e1les cu\u00e1ndo cu\u00e1nto cu\u00e1ntos cu\u00e1ntas del el los las lo para"
        " por porque qu\u00e9 qui\u00e9n se son su sus una unos y chi che come cosa dei della delle di dove"
        " gli i per perch\u00e9 quale quali quando quanto quanti sono wat waar wanneer welke het een van voor"
        " met zijn hoe hoeveel da das do dos na no o os a as onde quem"
    )
)

_GOES_ON: Final = re.compile(
    r"^\W{0,3}(?:and|or|but|so|also|then|what about|how about|und|oder|aber|auch|dann|et|ou|mais|y|o|pero|e|ma)\b",
    re.IGNORECASE,
)
_REFERS: Final = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that one|those|these"
    r"|er|sie|ihn|ihm|ihnen|deren|dessen|davon|daf\u00fcr|damit|dort|dazu)\b",
    re.IGNORECASE,
)


def with_questions_before(questions: Sequence[str]) -> str:
    """Return the last question of a conversation; after those before it if it has no subject of its own."""
    *before, question = questions or [""]
    read = [question]
    for earlier in reversed(before[-_MOST_BEFORE:]):
        if not is_follow_up(read[0]):
            break
        read.insert(0, earlier)
    return " ".join(dict.fromkeys(filter(None, read)))


def is_follow_up(question: str) -> bool:
    """Return whether a question is understood only after another one: it goes on, or refers to something."""
    count = len(words(question))
    refers = _REFERS.search(question) is not None and count <= _MOST_WORDS_OF_REFERENCE
    return _GOES_ON.match(question) is not None or refers or not count


def words(text: str) -> list[str]:
    """Return the stems of the words that carry the meaning of a text, in order."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if _UNSPACED.search(word):
            found += (word[start : start + 2] for start in range(max(1, len(word) - 1)))
        # The letters behind an apostrophe are no word.
        elif word not in _STOP_WORDS and (len(word) > 1 or word.isdigit()):
            found.append(_stem(word))
    return found


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    # One for each word, because a stemmer can't be used on two threads at once.
    stemmed: str = Stemmer.Stemmer("english", 0).stemWord(word)
    return stemmed


def is_same_word(stem: str, other: str) -> bool:
    """Return whether two stems are of one word, in any language that inflects the ends of words."""
    if stem == other:
        return True
    if stem[:_LEAST_STEM] != other[:_LEAST_STEM] or not (stem + other).isalpha():
        return False
    shared = next((number for number, pair in enumerate(zip(stem, other, strict=False)) if pair[0] != pair[1]), None)
    length = min(len(stem), len(other)) if shared is None else shared
    return length >= _LEAST_STEM and length >= _LEAST_SHARE_OF_STEM * max(len(stem), len(other))


def codes(question: str) -> list[str]:
    """Return the names with digits that a question contains, such as `P4` and `2025-0093`, in lower case."""
    return [
        token.lower()
        for token in _TOKEN.findall(question)
        if any(map(str.isdigit, token)) and (any(map(str.isalpha, token)) or "-" in token or "/" in token)
    ]
