"""Splits text into words by the Unicode rules (UAX #29), as Lucene's StandardTokenizer does.

Ideographs and Hiragana are words of one character each, so that Chinese and Japanese are found; Thai and its
neighbours, which write no spaces either, stay whole runs.
"""

import re

import regex

LONGEST_WORD = 255

# What the general rules below may differ on; white space is never within a word.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]\S*")
# The general rules restricted to ASCII, where they need no Unicode tables and a sixth of the time.
_ASCII_WORD = re.compile(
    r"(?=_*[A-Za-z0-9])[A-Za-z0-9_]+"
    r"(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))[A-Za-z0-9_]+)*"
)

_EXTEND = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"
_LETTER = rf"(?:[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]{_EXTEND})"
_DIGIT = rf"(?:\p{{WB=Numeric}}{_EXTEND})"
_JOINER = rf"(?:\p{{WB=ExtendNumLet}}{_EXTEND})"
_KATAKANA = rf"(?:\p{{WB=Katakana}}{_EXTEND})"
_IN_WORD = rf"(?:[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_EXTEND})"
_IN_NUMBER = rf"(?:[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_EXTEND})"
_WORDS = rf"{_LETTER}++(?:{_IN_WORD}{_LETTER}++)*+"
_NUMBERS = rf"{_DIGIT}++(?:{_IN_NUMBER}{_DIGIT}++)*+"
_MIXED = rf"(?:{_WORDS}|{_NUMBERS})++"
_WORD = regex.compile(
    rf"{_JOINER}*+(?:{_MIXED}|{_KATAKANA}++)(?:{_JOINER}++(?:{_MIXED}|{_KATAKANA}++))*+{_JOINER}*+"
    rf"|\p{{LB=SA}}++"
    rf"|[\p{{Ideographic}}\p{{Hiragana}}]{_EXTEND}"
    rf"|\p{{Extended_Pictographic}}{_EXTEND}(?:(?<=\u200d)\p{{Extended_Pictographic}}{_EXTEND})*+"
)


def split_words(text: str) -> list[str]:
    """Return the words of a text in their order; a longer one than Lucene takes comes in pieces."""
    found: list[str] = []
    at = 0
    for run in () if text.isascii() else _NOT_ASCII.finditer(text):
        start = max(text.rfind(" ", at, run.start()) + 1, text.rfind("\n", at, run.start()) + 1, at)
        found += _ASCII_WORD.findall(text, at, start)
        found += _WORD.findall(text, start, run.end())
        at = run.end()
    found += _ASCII_WORD.findall(text, at)
    if len(text) > LONGEST_WORD and max(map(len, found), default=0) > LONGEST_WORD:
        found = [word[at : at + LONGEST_WORD] for word in found for at in range(0, len(word), LONGEST_WORD)]
    return found
