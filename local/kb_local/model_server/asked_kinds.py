"""Says whether a sentence gives what a question asks for, such as a name for who and a time for when. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

_WORD: Final = re.compile(r"[^\W_]+")
_MONTHS: Final = "january|february|march|april|june|july|august|september|october|november|december"
_DAYS: Final = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?"
_MONTH: Final = (
    r"(?:jan|feb|f\u00e9v|m[a\u00e4]r|apr|abr|avr|ma[iy]|ju[nl]|juin|juil|aug|ago|ao\u00fb|sep|o[kc]t|nov|d[e\u00e9][zc]|dic|ene)"
    r"[a-z]{0,7}"
)
_NUMBERS: Final = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred|thousand|million|billion"
    "|half|once|twice|zwei|drei|vier|f\u00fcnf|sechs|sieben|acht|neun|zehn|zw\u00f6lf|hundert|tausend|dos|tres|cuatro|cinco|seis"
    "|siete|ocho|nueve|diez|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|cent|mille"
)
_CAPITAL: Final = r"[A-Z\u00c0-\u00de]"

_NAME: Final = re.compile(
    rf"(?<=[\w,;:(\"\u201c] )[(\"\u201c*\[]{{0,3}}{_CAPITAL}[\w'\u2019-]*"
    rf"|^\W{{0,5}}{_CAPITAL}[\w'\u2019-]+(?= {_CAPITAL}[a-z])|\S@\S+"
)
_NO_NAME: Final = re.compile(rf"(?:{_DAYS}|{_MONTHS}|may|i)\Z", re.IGNORECASE)
_TIME: Final = re.compile(
    rf"\b\d{{4}}-\d\d-\d\d\b|\b(?:1\d|20)\d\d\b|\b\d{{1,2}}[:.]\d\d\b|\b{_MONTH}[. ]{{1,2}}\d{{1,4}}"
    rf"|\b\d{{1,4}}(?:st|nd|rd|th)?[. ]{{1,2}}(?:de )?{_MONTH}\b|\b(?:{_DAYS}|{_MONTHS})\b"
    r"|\b(?:daily|weekly|monthly|yearly|noon|midnight|uhr|century|days?|weeks?|months?|years?|hours?|minutes?)\b",
    re.IGNORECASE,
)
# Not the numbers of a time of day.
_NUMBER: Final = re.compile(rf"(?<![\d:])\d[\d.,]*(?![\d:])|\b(?:{_NUMBERS})\b", re.IGNORECASE)
_PHONE_NUMBER: Final = re.compile(r"\d[\d /()-]{4,20}\d")
_PRICE: Final = re.compile(
    r"[$\u20ac\u00a3\u00a5]|\b(?:euros?|eur|usd|dollars?|cents?|pounds?|francs?|chf|free|kostenlos|gratis)\b",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(
    r"\S@\S|https?://|\b(?:in|at|on|to|beside|behind|under|near|next|im|am|auf|bei|neben|hinter|unter|dans|sur|en|nel|nella)\b",
    re.IGNORECASE,
)

_ASKS_NAME: Final = re.compile(
    r"\b(?:who|whom|whose|wer|wem|wen|wessen|qui\u00e9n(?:es)?|chi|quem)\b|^qui\b", re.IGNORECASE
)
_ASKS_TIME: Final = re.compile(
    r"^\W{0,3}(?:and |und )?(?:(?:since |until |from |by )?when"
    r"|(?:in |on |at |from |by |until )?(?:which|what) (?:year|day|date|month|time)s?"
    r"|(?:seit |bis |ab )?wann|in welchem jahr|(?:desde |hasta )?cu\u00e1ndo|en qu\u00e9 a\u00f1o|quand|quando)\b",
    re.IGNORECASE,
)
_ASKS_NUMBER: Final = re.compile(
    r"\bhow (?:many|much|long|old|tall|high|big|large|far|often|fast|deep|heavy|wide|small|late|early)\b"
    r"|\b(?:what|which) (?:number|percentage|amount|age|size|share)\b"
    r"|\bwie ?(?:viele?|lange?|hoch|alt|gro\u00df|weit|oft|schnell|schwer|tief)\b"
    r"|\bcu\u00e1nt[oa]s?\b|\bcombien\b|\bquant[oai]s?\b",
    re.IGNORECASE,
)
_ASKS_PHONE_NUMBER: Final = re.compile(r"\b(?:tele)?phone number|\btelefonnummer", re.IGNORECASE)
_ASKS_PRICE: Final = re.compile(
    r"\b(?:costs?|prices?|fees?|salary|wages?|kostet|kosten|preis|gehalt|lohn|teuer|cuestan?|co\u00fbtent?)\b",
    re.IGNORECASE,
)
_ASKS_PLACE: Final = re.compile(r"^\W{0,3}(?:where|wo|wohin|d\u00f3nde|o\u00f9|dove|onde)\b", re.IGNORECASE)

_GIVEN: Final = (
    (_ASKS_PHONE_NUMBER, _PHONE_NUMBER),
    (_ASKS_PRICE, _PRICE),
    (_ASKS_NAME, _NAME),
    (_ASKS_TIME, _TIME),
    (_ASKS_NUMBER, _NUMBER),
    (_ASKS_PLACE, _PLACE),
)

Gives: TypeAlias = Callable[[str], bool | None]


def gives_what_is_asked(question: str) -> Gives:
    """Return a test of sentences: does it give what is asked for, besides what the question says itself?

    It returns None if any sentence may answer the question.
    """
    given = next((given for asks, given in _GIVEN if asks.search(question)), None)
    if given is None:
        return lambda _: None
    known = set(_WORD.findall(question.lower()))

    def gives(sentence: str) -> bool:
        found = (_WORD.findall(each[0].lower()) for each in given.finditer(sentence))
        return any(_is_new(words, known) and not (given is _NAME and _is_no_name(words)) for words in found)

    return gives


def _is_new(words: list[str], known: set[str]) -> bool:
    return not words or not known.issuperset(words)


def _is_no_name(words: Iterable[str]) -> bool:
    return all(map(_NO_NAME.fullmatch, words))
