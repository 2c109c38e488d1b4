"""Finds other usual spellings of what a text contains: identifiers, numbers, dates and words with accents. Pure.

A text index splits `AB-1234/5` into three words and keeps `max_retry_count` as one, so neither is found by `AB12345` or
`retry count`. Texts and queries are therefore given further terms, the same ones for each spelling of the same thing.
Each term is one word for every analyzer: letters and digits, or digits with points between them.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from kb_shared.text.spelled_numbers import spelled_numbers

VERSION: Final = 1
"""Version of the terms. With another one, the documents of a knowledge base are indexed again."""
_MOST_TERMS: Final = 2_000
"""Greatest number of terms of a text; a table of codes has some hundred."""
_LONGEST_TERM: Final = 64
_LONGEST_SEQUENCE: Final = 10
"""Number of code-like words in a row up to which each part of the row is joined; of more, only pairs and triples."""

# Scripts that write no spaces, and Hangul, whose particles are joined to the word. Their runs are cut into pieces.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_HANGUL: Final = "\uac00-\ud7a3"
_IDEOGRAPHS: Final = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN: Final = re.compile(f"[{_UNSPACED}]+|[{_HANGUL}]+")
_TOKEN: Final = re.compile(rf"[^\s{_UNSPACED}{_HANGUL}{_IDEOGRAPHS}]+")
_ASCII_TOKEN: Final = re.compile(r"\S+")
_PLAIN: Final = re.compile(r"[\"'(\[]*+[A-Za-z]?[a-z]*[\"').,;:!?\]]*")
"""A word that has no other spelling: most words of a text."""
_CORE: Final = re.compile(r"[^\W_](?:.*[^\W_])?(?:\+\+|#)?", re.DOTALL)
_PIECE: Final = re.compile(r"[^\W_]+")
_PART: Final = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_MOST_PARTS_WITH_DIGITS: Final = 3
"""Number of parts with digits up to which a word is words with a number; one with more is a key."""
_SHORTEST_NUMBER: Final = 3
_MOST_PIECES: Final = 6
"""Number of pieces up to which neighbours among them are also joined, and points of a version are counted."""
_JOINED_INSIDE: Final = re.compile(r"[^\W\d_][.:'\u2019\u00b7](?=[^\W\d_])|_")
"""Characters that the rules of Unicode (UAX #29) do not take for the end of a word."""
_NUMERIC: Final = re.compile(r"[\d.,:]+")
_DOTTED: Final = re.compile(r"[vV]?(\d{1,9}(?:\.\d{1,9}){1,9})(?![^\W_])")
_HEXADECIMAL: Final = re.compile(r"0[xX]([0-9a-fA-F]{2,})")
_RATIO: Final = re.compile(r"(\d{1,4})/(\d{1,4})")
_SIZE: Final = re.compile(r"[a-z]{0,2}\d{1,6}x\d{1,6}(?:x\d{1,6})?", re.IGNORECASE)
_CODE: Final = re.compile(r"(?=\D*\d).*|[A-Z]{2,5}", re.DOTALL)
_SHORT_WORD: Final = re.compile(r"[^\W\d_]{1,5}")
_TIMES: Final = frozenset("xX\u00d7")
_BETWEEN_CODES: Final = " \u00a0\u202f(+"
_ENDS_SEQUENCE: Final = frozenset(",;:.!?)]}\"'\u201d\u2019")
_DIGIT: Final = re.compile(r"\d")
_PHONE: Final = re.compile(r"(?<![\w.])(?:\+\d|00\d|\(?0\d)[\d ()/.\u00a0-]{5,22}\d(?!\w)")
_TRUNK_ZERO: Final = "(0)"
_LOCAL_DIGITS: Final = 8
"""Number of last digits by which a telephone number is compared, with or without its country."""

_ISO_DATE: Final = re.compile(r"(?<![\d-])(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_FIRST: Final = re.compile(r"(?<![\d./-])(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?!\d)")
_MONTHS: Final = (
    "january januar janvier enero gennaio januari janeiro jan",
    "february februar fevrier febrero febbraio februari fevereiro feb",
    "march marz maerz mars marzo maart marco mar",
    "april avril abril aprile apr",
    "may mai mayo maggio mei maio",
    "june juni juin junio giugno junho jun",
    "july juli juillet julio luglio julho jul",
    "august aout agosto augustus augusti aug",
    "september septembre septiembre settembre setembro sep sept",
    "october oktober octobre octubre ottobre outubro oct okt",
    "november novembre noviembre novembro nov",
    "december dezember decembre diciembre dicembre dezembro dec dez",
)
_MONTH_NUMBERS: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_DAY_MONTH_YEAR: Final = re.compile(
    r"(?<![\w.])(\d{1,2})(?:\.|st|nd|rd|th|er)?\s(?:de\s|of\s)?([^\W\d_]{3,10})\.?,?\s(?:de\s)?(\d{4})(?!\d)"
)
_MONTH_DAY_YEAR: Final = re.compile(r"(?<!\w)([^\W\d_]{3,10})\.?\s(\d{1,2})(?:st|nd|rd|th)?,?\s(\d{4})(?!\d)")
_TIME: Final = re.compile(r"(?<![\d.:,])(\d{1,2})[:.](\d{2})(?![\d.:])(?:\s?([ap])\.?m\b)?", re.IGNORECASE)
_AND: Final = re.compile(r"(?<!\w)([^\W_]{1,4}) ?& ?([^\W_]{1,4})(?!\w)|(?<!\w)([A-Z]) (?:and|und|et) ([A-Z])(?!\w)")

_LETTERS: Final = str.maketrans(
    {
        "\u00d7": "x",
        "\u0142": "l",
        "\u0141": "L",
        "\u00f8": "o",
        "\u00d8": "O",
        "\u0111": "d",
        "\u0110": "D",
        "\u0131": "i",
        "\u0127": "h",
        "\u00e6": "ae",
        "\u00c6": "Ae",
        "\u0153": "oe",
        "\u0152": "Oe",
        "\u00f0": "d",
        "\u00fe": "th",
        "\u00df": "ss",
        "\u1e9e": "SS",
        "\u02bc": "'",
        "\u02bb": "'",
        "\u05f3": "'",
    }
)
_UMLAUTS: Final = str.maketrans(
    {"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00c4": "Ae", "\u00d6": "Oe", "\u00dc": "Ue"}
)
_SHARP: Final = re.compile(r"(?<=[^\W_])#(?![^\W_])")
_PLUS_PLUS: Final = re.compile(r"(?<=[^\W_])\+\+")
_ACCENTS: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_IGNORED: Final = re.compile("[\u00ad\u034f\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]+")
_SHORT_I: Final = "\u0439\u0419"
"""A Cyrillic letter of its own, which Unicode takes for one with an accent."""


class Spelling(NamedTuple):
    """A part of a text that has other spellings: its characters `start` to `end` (excluded), and its terms."""

    start: int
    end: int
    wholes: tuple[str, ...]
    """Terms for all of it, which nearly equal things don't have."""
    parts: tuple[str, ...] = ()
    """Words and other parts of it, and what it is without accents."""


def find_spellings(text: str, *, in_query: bool = False) -> Iterator[Spelling]:
    """Yield all that has other spellings. They may overlap: a date is also a row of numbers.

    Args:
        in_query: True for a query, in which capitals mean nothing: `ab 1234` may be `AB1234`.
    """
    words = [*_read_words(text, in_query=in_query)]
    for word in words:
        wholes, parts = (
            _without_repetitions(_wholes(word.core, in_query=in_query)),
            _without_repetitions(_parts(word.core)),
        )
        if wholes or parts:
            yield Spelling(word.start, word.end, wholes, parts)
    yield from _sequences(words, text)
    for run in () if text.isascii() else _RUN.finditer(text):
        if len(run[0]) > 1:
            yield Spelling(run.start(), run.end(), (), _without_repetitions(_pieces_of_run(run[0])))
    for start, end, term in (*_pairs(text), *_notations(text)):
        yield Spelling(start, end, (term,))


def _notations(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield what is written with digits in several notations, each in one of them."""
    if not _DIGIT.search(text):
        return
    yield from _phones(text)
    yield from _dates(text)
    yield from _times(text)
    for start, end, terms in spelled_numbers(text):
        yield from ((start, end, term) for term in terms)


def spelled_terms(*texts: str) -> list[str]:
    """Return all terms of texts, each once, in their order; at most 2,000."""
    found: dict[str, None] = {}
    for text in texts:
        for spelling in find_spellings(text):
            found.update(dict.fromkeys((*spelling.wholes, *spelling.parts)))
            if len(found) >= _MOST_TERMS:
                return [*found][:_MOST_TERMS]
    return [*found]


class _WrittenWord(NamedTuple):
    """A word between spaces, without the marks around it."""

    start: int
    end: int
    core: str
    is_code: bool
    ends_sequence: bool


def _read_words(text: str, *, in_query: bool) -> Iterator[_WrittenWord]:
    tokens = (_ASCII_TOKEN if text.isascii() else _TOKEN).finditer(text)
    for token in tokens:
        is_plain = not in_query and token[0] not in _TIMES and _PLAIN.fullmatch(token[0])
        if not is_plain and (word := _read_word(token, in_query=in_query)):
            yield word


def _read_word(token: re.Match[str], *, in_query: bool) -> _WrittenWord | None:
    written = token[0]
    if written in _TIMES:
        return _WrittenWord(token.start(), token.end(), "x", is_code=False, ends_sequence=False)
    found = _CORE.search(written)
    if found is None:
        return None
    core, start, after = found[0], token.start() + found.start(), written[found.end() :]
    if core.isalpha() and not after and written[: found.start()].endswith("."):
        # `.NET`; after a full stop there is a space.
        return _WrittenWord(start - 1, start + len(core), f".{core}", is_code=False, ends_sequence=True)
    is_code = _CODE.fullmatch(core) or (in_query and _SHORT_WORD.fullmatch(core))
    return _WrittenWord(
        start, start + len(core), core, bool(is_code), ends_sequence=after[:1] in _ENDS_SEQUENCE and after != ""
    )


def _without_repetitions(terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for term in terms if 1 < len(term) <= _LONGEST_TERM))


class _FoldedCharacters(dict[int, str]):
    """Folding of each character, computed when it is first met."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", character))
        folded = self[code_point] = character if character in _SHORT_I else unicodedata.normalize("NFC", plain)
        return folded


_FOLDED: Final = _FoldedCharacters()


def fold_accents(word: str) -> str:
    """Return a word without accents, typographic apostrophes and invisible characters, in the same case."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFKC", _IGNORED.sub("", word)).translate(_LETTERS).translate(_FOLDED)


def _wholes(core: str, *, in_query: bool) -> Iterator[str]:
    """Yield what an identifier is without separators."""
    if core.startswith("."):
        yield f"dot{fold_accents(core[1:]).lower()}"
        return
    named = _named(core)
    word = fold_accents(named)
    if _NUMERIC.fullmatch(word):
        # `75` is not 7.5; `spelled_numbers` and dates have the rest.
        yield from (word,) if in_query else ()
        return
    pieces = _PIECE.findall(word.lower())
    is_new = len(pieces) > 1 or word.casefold() != _as_indexed(core)
    if named != core or (any(map(str.isdigit, word)) and (in_query or is_new or _SIZE.fullmatch(word))):
        yield "".join(pieces)
    if dotted := _DOTTED.match(word):
        yield dotted[1]
    if known := _HEXADECIMAL.fullmatch(word):
        yield known[1].lower()
    if ratio := _RATIO.fullmatch(word):
        yield f"{ratio[1]}x{ratio[2]}"


def _parts(core: str) -> Iterator[str]:
    """Yield the words within a word, and the word without accents."""
    named = _named(core)
    folded = fold_accents(named)
    # The index has each word as it is written.
    yield from _structure(folded, is_new=named != core or folded.casefold() != _as_indexed(core))
    if (written_out := named.translate(_UMLAUTS)) != named:
        yield from _structure(fold_accents(written_out), is_new=True)


def _named(core: str) -> str:
    """Return a word with signs of programming languages as words."""
    return _SHARP.sub("sharp", _PLUS_PLUS.sub("plusplus", core))


def _as_indexed(word: str) -> str:
    return word.casefold() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def _structure(word: str, *, is_new: bool) -> Iterator[str]:
    if dotted := _DOTTED.match(word):
        yield from () if _DAY_FIRST.fullmatch(word) else _prefixes(dotted[1])
    if _NUMERIC.fullmatch(word) or _HEXADECIMAL.fullmatch(word):
        return
    pieces = _PIECE.findall(word)
    if len(pieces) > 1:
        yield "".join(pieces).lower()
    if len(pieces) <= _MOST_PIECES:
        yield from (f"{one}{other}".lower() for one, other in pairwise(pieces) if not f"{one}{other}".isdecimal())
    if is_new or _JOINED_INSIDE.search(word):
        yield from (piece.lower() for piece in pieces)
    for piece in pieces:
        parts = _PART.findall(piece)
        if len(parts) <= _MOST_PARTS_WITH_DIGITS or not any(character.isdigit() for character in piece):
            yield from (part.lower() for part in parts if len(parts) > 1 and not _is_small_number(part))


def _is_small_number(part: str) -> bool:
    """Return whether a part is a number that many other things have, such as that of `w10`."""
    return len(part) < _SHORTEST_NUMBER and part.isdecimal()


def _prefixes(dotted: str) -> Iterator[str]:
    """Yield `3.11` of `3.11.2`."""
    numbers = dotted.split(".", _MOST_PIECES)[:_MOST_PIECES]
    for end in range(2, len(numbers)):
        yield ".".join(numbers[:end])


def _sequences(words: list[_WrittenWord], text: str) -> Iterator[Spelling]:
    """Yield code-like words in a row, such as groups of an account number, with what they are joined."""
    row: list[_WrittenWord] = []
    for word, after in zip_longest(words, words[1:]):
        if row and (row[-1].ends_sequence or text[row[-1].end : word.start].strip(_BETWEEN_CODES)):
            yield from _joined(row)
            row = []
        is_sign = word.core == "x" and bool(row) and after is not None and after.core[:1].isdigit()
        if word.is_code or is_sign:
            row.append(word)
        else:
            yield from _joined(row)
            row = []
    yield from _joined(row)


def _joined(row: list[_WrittenWord]) -> Iterator[Spelling]:
    written = ["".join(_PIECE.findall(fold_accents(word.core))).lower() for word in row]
    longest = len(row) if len(row) <= _LONGEST_SEQUENCE else 3
    for first in range(len(row) - 1):
        term = written[first]
        for last in range(first + 1, min(first + longest, len(row))):
            term += written[last]
            if len(term) > _LONGEST_TERM:
                break
            if len(term) > 2 and any(character.isdigit() for character in term):
                yield Spelling(row[first].start, row[last].end, (term,))


def _pieces_of_run(run: str) -> Iterator[str]:
    size = 2 if "\uac00" <= run[0] <= "\ud7a3" else 3
    if len(run) < size:
        yield run
    for start in range(len(run) - size + 1):
        yield run[start : start + size]


def _phones(text: str) -> Iterator[tuple[int, int, str]]:
    for number in _PHONE.finditer(text):
        digits = "".join(_DIGIT.findall(number[0].replace(_TRUNK_ZERO, "")))
        if _LOCAL_DIGITS < len(digits) <= 15:
            yield number.start(), number.end(), f"tel{digits[-_LOCAL_DIGITS:]}"
            yield number.start(), number.end(), digits


def _dates(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _ISO_DATE.finditer(text):
        yield from _date(found, year=found[1], month=found[2], day=found[3])
    for found in _DAY_FIRST.finditer(text):
        yield from _date(found, year=found[4], month=found[3], day=found[1])
        if found[2] == "/":
            yield from _date(found, year=found[4], month=found[1], day=found[3])
    for found in _DAY_MONTH_YEAR.finditer(text):
        yield from _date(found, year=found[3], month=found[2], day=found[1])
    for found in _MONTH_DAY_YEAR.finditer(text):
        yield from _date(found, year=found[3], month=found[1], day=found[2])


def _date(found: re.Match[str], *, year: str, month: str, day: str) -> Iterator[tuple[int, int, str]]:
    number = int(month) if month.isdecimal() else _MONTH_NUMBERS.get(fold_accents(month).lower(), 0)
    try:
        spelled = date(int(year), number, int(day))
    except ValueError:
        return
    yield found.start(), found.end(), f"{spelled:%Y%m%d}"


def _times(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _TIME.finditer(text):
        hour, minute, half = int(found[1]), int(found[2]), (found[3] or "").lower()
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour < 24 and minute < 60:
            yield found.start(), found.end(), f"time{hour:02}{minute:02}"


def _pairs(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield `R&D`, which is also written with spaces and with a word."""
    for found in _AND.finditer(text):
        both = [part for part in found.groups() if part]
        yield found.start(), found.end(), fold_accents("and".join(both)).lower()
