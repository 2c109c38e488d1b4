"""Kinds of the values in tables: a row that names columns differs in kind from the rows below it."""

import re
from enum import StrEnum
from typing import Final


class CellKind(StrEnum):
    EMPTY = "empty"
    STATE = "state"
    """Word that stands for a value, such as `yes` or `closed`."""
    TEXT = "text"
    """Words without a digit."""
    NUMBERED = "numbered"
    """Words with a digit, such as `extension 114`."""
    CODE = "code"
    """One word with a digit, such as `4711-B`."""
    NUMBER = "number"
    YEAR = "year"
    PERCENT = "percent"
    MONEY = "money"
    QUANTITY = "quantity"
    """Number with its unit."""
    DATE = "date"
    TIME = "time"
    ADDRESS = "address"
    """Mail or web address."""


MEASURED: Final = frozenset(
    {CellKind.NUMBER, CellKind.YEAR, CellKind.PERCENT, CellKind.MONEY, CellKind.DATE, CellKind.TIME}
)
"""Kinds that no name of a column has, unless the names are a series such as years."""
DATA: Final = MEASURED | {CellKind.STATE, CellKind.CODE, CellKind.QUANTITY, CellKind.ADDRESS}

_DIGITS: Final = r"\d+(?:[.,'\u2019\u00a0\u202f ]\d+)*"
_NUMBER: Final = rf"[-+±~<>≤≥]?\s*\(?[-+]?(?:{_DIGITS}|[.,]\d+)(?:[eE][-+]?\d+)?\)?-?"
"""A number; SAP writes a minus after it."""
_CURRENCY: Final = r"(?:[$€£¥₹₽₩₺]|[A-Z]{2,3}\$?|Fr\.?|zł|kr\.?|Kč)"
_MONTH: Final = (
    r"(?:jan(?:uary|uar|vier|\.)?|feb(?:ruary|ruar|\.)?|février|mar(?:ch|s|\.)?|märz|apr(?:il|\.)?|avril|may|mai|june?"
    r"|juni|juin|july?|juli|juillet"
    r"|aug(?:ust|\.)?|août|sept?(?:ember|embre|\.)?|o[ck]t(?:ober|obre|\.)?|nov(?:ember|embre|\.)?"
    r"|de[cz](?:ember|\.)?|décembre)"
)
_WEEKDAY: Final = (
    r"(?:mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun)(?:\.|s?day|nesday|rsday|urday)?|mo|di|mi|do|fr|sa|so"
    r"|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
)
_STATES: Final = (
    r"yes|no|ja|nein|oui|non|sí|x|✓|✔|✗|✘|true|false|on|off|open|closed|free|sold out"
    r"|included|unlimited|unknown|optional|on request|not available|not applicable|geschlossen|frei|kostenlos"
    r"|kein|keine|entfällt|unbekannt|auf anfrage|inklusive"
    r"|fermé|gratuit|aucune?|cerrado|chiuso|gratis"
)
_DATES: Final = (
    r"\d{4}-\d\d?(?:-\d\d?)?(?:[T ]\d.*)?",
    r"\d{1,2}[./-]\d{1,2}[./-](?:\d{2,4})?(?: \d.*)?",
    r"\d{4}[./]\d{1,2}[./]\d{1,2}",
    rf"(?:\d{{1,2}}\.? )?{_MONTH} (?:\d{{1,2}}, ?)?(?:\d{{2}}|\d{{4}})",
    rf"(?:\d{{1,2}}\.? )?{_MONTH}",
    _WEEKDAY,
)
_UNIT: Final = r"[^\W\d_°µΩ\"'][\w/²³°µΩ%·]{0,11}(?: [^\W\d_]{1,9})?|[°µΩ\"'][CFAVWm]?"
_PATTERNS: Final = (
    (CellKind.EMPTY, re.compile(r"|[-\u2013\u2014.…?/]+|n/?a|none|null|tbd", re.IGNORECASE)),
    (CellKind.STATE, re.compile(_STATES, re.IGNORECASE)),
    (CellKind.YEAR, re.compile(r"(?:19|20)\d\d")),
    (CellKind.DATE, re.compile("|".join(_DATES), re.IGNORECASE)),
    (CellKind.TIME, re.compile(r"\d{1,3}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?", re.IGNORECASE)),
    (CellKind.PERCENT, re.compile(rf"{_NUMBER}\s*[%‰]")),
    (CellKind.MONEY, re.compile(rf"[-+]?{_CURRENCY}\s?{_NUMBER}|{_NUMBER}\s?{_CURRENCY}")),
    (CellKind.NUMBER, re.compile(rf"{_NUMBER}|\d+ \d+/\d+|\d+/\d+")),
    (CellKind.ADDRESS, re.compile(r"\S+@\S+\.\w+|(?:https?://|www\.)\S+")),
    (CellKind.QUANTITY, re.compile(rf"{_NUMBER}\s?(?:{_UNIT})")),
    (CellKind.CODE, re.compile(r"(?=\S*\d)\S+")),
    (CellKind.NUMBERED, re.compile(r"(?=.*\d).+")),
)
_MAX_CHARACTERS: Final = 100


def kind_of(value: str) -> CellKind:
    """Return the kind of a value, which is one line."""
    if len(value) > _MAX_CHARACTERS:
        return CellKind.TEXT
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(value)), CellKind.TEXT)
