"""Has the sentence of each error: what is wrong, what is allowed, and the beginning of the value."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

from kb_contracts.reasons.patterns import first_forbidden, form_of
from kb_contracts.reasons.schema_nodes import DATE_TIME_EXAMPLE, Node
from kb_contracts.reasons.shown_values import is_plain, shown
from kb_contracts.reasons.times import fault_of_time

MAX_NAMES: Final = 12
HALF_A_PAIR: Final = "must not contain half of a surrogate pair: send valid Unicode"
_TIME: Final = f"a date-time such as {DATE_TIME_EXAMPLE}"
_OTHER: Final = "must have the form that the reference describes"
_KINDS: Final[Mapping[str, str]] = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "dict_type": "an object",
    "frozen_dict_type": "an object",
    "ordered_dict_type": "an object",
    "counter_type": "an object",
    "mapping_type": "an object",
    "arguments_type": "an object",
    "named_tuple_type": "a list",
    "list_type": "a list",
    "deque_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "none_required": "null",
    "string_type": "a text",
    "string_not_ascii": "a text of ASCII characters",
    "bytes_type": "a text",
    "json_type": "a text",
    "json_invalid": "a text that is JSON",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer of fewer digits",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "fraction_type": "a number",
    "fraction_parsing": "a number",
    "complex_type": "a number",
    "complex_str_parsing": "a number",
    "date_type": "a date such as 2026-01-31",
    "date_parsing": "a date such as 2026-01-31",
    "date_from_datetime_parsing": "a date such as 2026-01-31",
    "date_from_datetime_inexact": "a date without a time of day",
    "date_past": "a date in the past",
    "date_future": "a date in the future",
    "time_type": "a time of day such as 12:00:00",
    "time_parsing": "a time of day such as 12:00:00",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": _TIME,
    "timezone_offset": _TIME,
    "timezone_naive": "a date-time without a zone",
    "datetime_past": "a date-time in the past",
    "datetime_future": "a date-time in the future",
    "time_delta_type": "a duration such as PT30S",
    "time_delta_parsing": "a duration such as PT30S",
    "url_type": "a URL",
    "url_parsing": "a URL",
    "url_syntax_violation": "a URL",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
}
"""Kind that is wanted, of errors that say no more than that."""
_MISSING: Final = frozenset(
    {"missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument"}
)
UNKNOWN_FIELDS: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "string_too_short": ("at least", "character"),
    "string_too_long": ("at most", "character"),
    "bytes_too_short": ("at least", "byte"),
    "bytes_too_long": ("at most", "byte"),
    "url_too_long": ("at most", "character"),
    "too_short": ("at least", "item"),
    "too_long": ("at most", "item"),
    "decimal_max_digits": ("at most", "digit"),
    "decimal_max_places": ("at most", "decimal place"),
    "decimal_whole_digits": ("at most", "digit before the decimal point"),
}
_LIMIT_NAMES: Final = ("min_length", "max_length", "max_digits", "decimal_places", "whole_digits")


def is_missing(error: ErrorDetails) -> bool:
    return error["type"] in _MISSING


def sentence(error: ErrorDetails, node: Node, parent: Node) -> str:
    """Return what is wrong at the place of `error`; completes the name of the field.

    Args:
        error: error of pydantic, with its input and its context.
        node: what the schema says of the place.
        parent: what it says of the object around it.
    """
    kind, value = error["type"], error["input"]
    if kind in _MISSING:
        return _missing(value, name=str(error["loc"][-1]) if error["loc"] else "", parent=parent)
    if kind in UNKNOWN_FIELDS:
        return unknown_field(str(error["loc"][-1]) if error["loc"] else "", parent.field_names())
    if node.type == "datetime" and kind not in {"datetime_past", "datetime_future"}:
        return wrong_time(value, node)
    return _WRITERS.get(kind, _of_kind)(error, node)


def wrong_kind(kinds: Sequence[str], value: object, node: Node) -> str:
    """Say that a value is of none of `kinds`."""
    return f"must be {any_of(kinds)}, not {shown(value, node)}"


def wrong_time(value: object, node: Node) -> str:
    fault = fault_of_time(value)
    return f"must be {_TIME}, not {shown(value, node)}" + (f": {fault}" if fault else "")


def unknown_field(name: str, known: Sequence[str], *, noun: str = "a field") -> str:
    """Say that there is no such field, with the nearest name that there is."""
    if nearest := _nearest(name, known):
        return f"is not {noun} here; did you mean {nearest}?"
    if 0 < len(known) <= MAX_NAMES:
        return f"is not {noun} here; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
    return f"is not {noun} here"


def unknown_choice(value: object, known: Sequence[str]) -> str:
    """Say that `value` is none of the texts that are known, with the nearest of them if there is one."""
    choices = _choices(known)
    message = wrong_kind(choices.kinds(), value, choices)
    nearest = _nearest(value, known) if isinstance(value, str) else None
    # What deletes is not suggested to a sender that may have meant anything else.
    is_safe = nearest is not None and ("delet" not in nearest or "delet" in str(value).lower())
    return f"{message}: did you mean {nearest}?" if is_safe else message


def any_of(kinds: Sequence[str]) -> str:
    return " or ".join([", ".join(kinds[:-1]), kinds[-1]]) if len(kinds) > 1 else kinds[0]


def _missing(around: object, *, name: str, parent: Node) -> str:
    given = [each for each in around if is_plain(each)] if isinstance(around, Mapping) and len(around) <= 100 else []
    unknown = [each for each in given if each not in parent.field_names()]
    if not parent.is_private and (nearest := _nearest(name, unknown)):
        return f"is missing; rename {nearest} if it is meant"
    return "is missing"


def _nearest(name: str, names: Sequence[str]) -> str | None:
    if not is_plain(name):
        return None
    letters = {letters_of(each): each for each in names}
    found = difflib.get_close_matches(letters_of(name), list(letters), n=1, cutoff=0.75)
    return letters[found[0]] if found else None


def _choices(known: Sequence[str]) -> Node:
    return Node({"type": "literal", "expected": list(known)}, {})


def letters_of(name: str) -> str:
    """Return a name as it is heard: `documentId` and `document_id` are the same."""
    return name.replace("_", "").replace("-", "").replace(".", "").lower()


def _context(error: ErrorDetails) -> Mapping[str, Any]:
    return error.get("ctx", {})


def _of_kind(error: ErrorDetails, node: Node) -> str:
    kind = _KINDS.get(error["type"])
    if kind is None:
        return _OTHER
    return wrong_kind([kind], error["input"], node)


def _bound(error: ErrorDetails, node: Node) -> str:
    words, name = _BOUNDS[error["type"]]
    return f"must be {words} {_context(error).get(name)}, not {shown(error['input'], node)}"


def _limit(error: ErrorDetails, _: Node) -> str:
    value, context = error["input"], _context(error)
    words, noun = _LIMITS[error["type"]]
    if isinstance(value, Mapping):
        noun = "field"
    limit = next((context[name] for name in _LIMIT_NAMES if name in context), 0)
    has = context.get("actual_length") or (len(value) if isinstance(value, str | bytes | list | Mapping) else None)
    if not has and limit == 1:
        return "must not be empty"
    return f"must have {words} {limit:,} {noun}{'' if limit == 1 else 's'}" + (f", not {has:,}" if has else "")


def _pattern(error: ErrorDetails, node: Node) -> str:
    form, value = form_of(str(_context(error).get("pattern", ""))), error["input"]
    if not isinstance(value, str):
        return f"must {form.words}"
    forbidden = first_forbidden(value, form.allowed) if form.allowed else None
    return f"must {form.words}, not {shown(value, node)}" + (f": {forbidden}" if forbidden else "")


def _choice(error: ErrorDetails, node: Node) -> str:
    kinds = node.kinds() if node.type in {"literal", "enum"} else []
    if not kinds:
        kinds = [str(_context(error).get("expected", "one of the documented values")).replace("'", '"')]
    return wrong_kind(kinds, error["input"], node)


def _tag(error: ErrorDetails, _: Node) -> str:
    name = str(_context(error).get("discriminator", "")).strip("'")
    expected = str(_context(error).get("expected_tags", "")).replace("'", '"')
    if error["type"] == "union_tag_not_found" or not expected:
        return f"must have the field {name} that says what it is" if is_plain(name) else _OTHER
    return f"must have one of {expected} as {name}" if is_plain(name) else f"must be one of {expected}"


def _own(error: ErrorDetails, node: Node) -> str:
    reason = _context(error).get("error")
    # A subclass comes from a library, and may quote the value.
    if type(reason) is not ValueError or not str(reason):
        return _OTHER
    is_about_number = node.type in {"int", "float"} or (node.is_union and node.may_be_shown())
    return f"{reason}, not {shown(error['input'], node)}" if is_about_number else str(reason)


def _scheme(error: ErrorDetails, _: Node) -> str:
    expected = str(_context(error).get("expected_schemes", "")).replace("'", "")
    return f"must be a URL that begins with {expected}" if expected else "must be a URL"


_WRITERS: Final[Mapping[str, Callable[[ErrorDetails, Node], str]]] = {
    "string_pattern_mismatch": _pattern,
    "literal_error": _choice,
    "enum": _choice,
    "union_tag_invalid": _tag,
    "union_tag_not_found": _tag,
    "value_error": _own,
    "url_scheme": _scheme,
    **dict.fromkeys(_BOUNDS, _bound),
    **dict.fromkeys(_LIMITS, _limit),
    "string_unicode": lambda *_: HALF_A_PAIR,
    "frozen_field": lambda *_: "can't be changed",
    "frozen_instance": lambda *_: "can't be changed",
    "invalid_key": lambda *_: "must have texts as names",
    "recursion_loop": lambda *_: "must not contain itself",
    "recursion_depth_exceeded": lambda *_: "is nested too deeply",
}
