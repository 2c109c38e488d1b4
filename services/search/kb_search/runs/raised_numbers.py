"""Decides whether raised digits can be a citation, as behind a word or a sentence, and not a power. Pure."""

import re
from typing import Final

RAISED_DIGITS: Final = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"

_TO_DIGITS: Final = str.maketrans(RAISED_DIGITS, "0123456789")
_WORD: Final = rf"[^\W\d_{RAISED_DIGITS}]{{4,40}}"
_MEASURE: Final = r"(?:\d|\bper|\bpro|/)[ ]?"
_BEHIND: Final = re.compile(
    rf"(?:(?P<measure>{_MEASURE})?\b(?P<word>{_WORD})|[\w)\]\"”»%][.,;:!?][\"']?|[”“»«])\Z", re.IGNORECASE
)
"""A word or the end of a clause. A word behind a number is a unit, and raised digits behind that are its power."""
_AHEAD_OF_POWER: Final = re.compile(rf"[\w{RAISED_DIGITS}\u207a-\u207f(^]|[ \t]?[=+*/\u00b7\u00d7\u2212-]")
_TAKES_POWER: Final = re.compile(
    r"alpha|beta|gamma|delta|epsilon|theta|kappa|lambda|sigma|omega|sinh|cosh|tanh|"
    r"(?:(?:milli|centi|zenti|kilo)?met(?:er|re)|inche?|yard|mile|second|sekunde|hour|stunde)[sn]?|foot|feet",
    re.IGNORECASE,
)
"""Variables and units."""


def without_raising(digits: str) -> str:
    """Return raised digits as usual ones."""
    return digits.translate(_TO_DIGITS)


def can_cite(before: str, after: str) -> bool:
    """Return whether raised digits between these texts stand where a citation stands."""
    behind = _BEHIND.search(before)
    if behind is None or behind["measure"] is not None or _TAKES_POWER.fullmatch(behind["word"] or ""):
        return False
    return _AHEAD_OF_POWER.match(after) is None
