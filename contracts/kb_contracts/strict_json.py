"""Parses JSON as RFC 8259 defines it, which is stricter than Python's parser."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from kb_contracts.reasons import json_text
from kb_contracts.reasons.json_text import NotJson

MAX_VALUES: Final = 150_000
"""Limit of elements, members and containers of a JSON document. The 20,000 pages of a document have 80,000."""

_MAX_DIGITS: Final = 400
"""Number of digits above which no double is large enough."""
_SLICE: Final = 64_000
"""Number of characters that are examined before other threads have their turn."""


def parse(body: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """Read a JSON document.

    Raises:
        NotJson: for all that `parse_text` refuses, and for what can't be stored or takes long: lone surrogates,
            bytes that are not UTF-8, more than `max_values` values. The message says which and quotes nothing.
    """
    text = json_text.to_text(body)
    if _has_too_many_values(text, max_values):
        raise NotJson(f"it has more than {max_values:,} values")
    value = parse_text(text)
    if "\\u" in text and _has_lone_surrogate(value):
        raise NotJson("a string contains half of a surrogate pair")
    return value


def parse_text(text: str, *, any_number: bool = False) -> Any:
    """Read a JSON document whose strings may contain lone surrogates.

    Args:
        any_number: whether numbers that no field can hold are read all the same, infinite or shortened. They cost their
            field then, and not the document. Python writes NaN where it knows no number.

    Raises:
        NotJson: for anything that is not JSON or ambiguous: NaN, infinities, numbers beyond a double, a name that
            occurs twice in an object, nesting beyond the stack. The message says which and quotes nothing.
    """
    return json_text.parse_text(text, **(_ANY_NUMBER if any_number else _NUMBERS))


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise NotJson("a number is beyond the range of a double")
    return value


def _integer(digits: str) -> int:
    # Python reads no more than 4,300 digits. The first ones make a number that is too large for any field as well.
    return int(digits[:_MAX_DIGITS])


_NUMBERS: Final[Mapping[str, Any]] = {"parse_float": _float}
_ANY_NUMBER: Final[Mapping[str, Any]] = {"parse_constant": float, "parse_float": float, "parse_int": _integer}


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_too_many_values(text: str, max_values: int) -> bool:
    # A count that includes strings is cheap, and enough for nearly all documents.
    return _marks(text) > max_values and _has_too_many_outside_strings(text, max_values)


def _has_too_many_outside_strings(text: str, max_values: int) -> bool:
    count, in_string = 0, 0
    without_escapes = text.replace("\\\\", "").replace('\\"', "")
    for start in range(0, len(without_escapes), _SLICE):
        parts = without_escapes[start : start + _SLICE].split('"')
        count += _marks("".join(parts[in_string::2]))
        if count > max_values:
            return True
        in_string ^= (len(parts) - 1) % 2
    return False


def _marks(text: str) -> int:
    """Count characters of which there is at least one for each value."""
    return text.count(",") + text.count("[") + text.count("{")
