"""Reads the arguments of a tool as models and their clients write them. Pure.

What can mean one thing only is taken: null for an option that is left out, "3" and 3.0 for 3, JSON in a string, one
value for a list of one, a date for its day, nothing for no filter, a number above the limit for the limit, `topK` for
`top_k`, arguments within `arguments`. An argument that the tool does not have is left out, and the model is told so.
Anything else is refused with what to send instead.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kb_contracts.reasons.field_reasons import describe
from kb_search.runs.written_arguments import UnusableCall, parse_json

MAX_PROBLEMS: Final = 5
_ROUNDS: Final = 4
"""Number of times that an argument is read again: a JSON text may contain numbers as texts."""
_SEPARATOR: Final = re.compile(r"[\s_-]")
_NO_NAME: Final = re.compile(r"[^\w.-]")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME_WITHOUT_ZONE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:\d{2})?")
_BOOLEANS: Final = {"true": True, "false": False}
_LEFT_OUT: Final[Sequence[object]] = ("", [], {})
_WORDS_FOR_NOTHING: Final = frozenset({"", "null", "none", "undefined"})
_WRAPPERS: Final = frozenset({"arguments", "parameters", "input", "args", "kwargs", "params"})
"""Names that models put around all arguments."""

Arguments = TypeVar("Arguments", bound=BaseModel)


class _NotUnderstood(Exception):
    """A value that can mean several things, or none."""


_SOURCES_OF_IDS: Final = {
    "kb_id": "list_knowledge_bases",
    "kb_ids": "list_knowledge_bases",
    "document_id": "the results of a search",
}
"""Sources of the ids that a tool takes."""


@dataclass(frozen=True, slots=True)
class ReadArguments(Generic[Arguments]):
    """Arguments of a call."""

    arguments: Arguments
    ignored: Sequence[str]
    """Names that the model made up."""

    @property
    def notes(self) -> Sequence[str]:
        """Return what the model is told about its call."""
        return [f"Ignored, because the tool has no such argument: {', '.join(self.ignored)}."] if self.ignored else []


def read_arguments(
    model: type[Arguments], arguments: Mapping[str, Any], *, ignores_unknown: bool = True
) -> ReadArguments[Arguments]:
    """Return the arguments of a call.

    Args:
        model: Arguments of the tool.
        arguments: What the model sent.
        ignores_unknown: Whether arguments that the tool does not have are left out. A tool that writes refuses them:
            something would be missing in what it writes.

    Raises:
        UnusableCall: They are not those of the tool; its text says what to send.
    """
    names = {field.alias or name for name, field in model.model_fields.items()}
    arguments = _under_known_names(arguments, names)
    ignored = [name for name in arguments if name not in names] if ignores_unknown else []
    given = {name: value for name, value in arguments.items() if name not in ignored}
    for _ in range(_ROUNDS):
        try:
            return ReadArguments(model.model_validate(given), [_shown(name) for name in ignored[:MAX_PROBLEMS]])
        except ValidationError as invalid:
            problem = UnusableCall(f"The arguments can't be used: {_explain(invalid, model)}.")
            given, has_changed = _repair(model, given, invalid.errors(include_url=False))
        if not has_changed:
            break
    raise problem


def _under_known_names(arguments: Mapping[str, Any], names: set[str]) -> Mapping[str, Any]:
    """Return the arguments out of what a model has put around them, under the names as the tool writes them."""
    (name, value), *others = arguments.items() or [("", None)]
    if not others and name in _WRAPPERS - names:
        try:
            arguments = value if isinstance(value, dict) else _read_object(value)
        except _NotUnderstood:
            return arguments
    by_letters = {_letters(name): name for name in names}
    meant = {name: by_letters.get(_letters(name), name) for name in arguments}
    counts = Counter(meant.values())
    return {meant[name] if counts[meant[name]] == 1 else name: value for name, value in arguments.items()}


def _letters(name: str) -> str:
    return _SEPARATOR.sub("", name).lower()


def _explain(invalid: ValidationError, model: type[BaseModel]) -> str:
    problems = describe(invalid, model, whole="arguments", most=MAX_PROBLEMS)
    wrong = {str(each["loc"][0]) for each in invalid.errors(include_url=False) if each["loc"]}
    sources = sorted(f"{name} comes from {source}" for name, source in _SOURCES_OF_IDS.items() if name in wrong)
    return "; ".join([f"{problems}. The tool takes: {', '.join(model.model_fields) or 'nothing'}", *sources])


def _shown(name: str) -> str:
    return _NO_NAME.sub("?", name[:40])


def _repair(
    model: type[BaseModel], given: Mapping[str, Any], errors: Sequence[ErrorDetails]
) -> tuple[dict[str, Any], bool]:
    """Return the arguments with those read again that are wrong, and whether any is another now."""
    repaired = dict(given)
    for error in errors:
        where = error["loc"]
        name = str(where[0]) if where else ""
        if name not in given or name not in model.model_fields or repaired.get(name, error) != given[name]:
            continue
        is_optional = not model.model_fields[name].is_required()
        value = given[name]
        is_word = isinstance(value, str) and value.strip().lower() in _WORDS_FOR_NOTHING
        if is_optional and (value is None or value in _LEFT_OUT or is_word):
            del repaired[name]
            continue
        try:
            repaired[name] = _read_again(name, value, error)
        except _NotUnderstood:
            continue
    return repaired, repaired != dict(given) or any(type(repaired[name]) is not type(given[name]) for name in repaired)


def _read_again(name: str, value: Any, error: ErrorDetails) -> Any:
    """Return the only other meaning of a value. Raises _NotUnderstood."""
    if len(error["loc"]) > 1 and isinstance(value, list):
        # An element of a list, such as a number where a text belongs.
        return [str(each) if _is_number(each) else each for each in value]
    if error["type"] == "less_than_equal" and error["ctx"]["le"] > 1:
        # A relevance above 1 may be a percentage, or mean the highest one.
        return error["ctx"]["le"]
    if (read := _READERS.get(error["type"])) is not None:
        return read(value)
    if isinstance(value, str):
        return _read_time(value.strip(), is_end=name.endswith("_to"))
    raise _NotUnderstood


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_text(value: Any) -> str:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if _is_number(value):
        return str(value)
    raise _NotUnderstood


def _read_boolean(value: Any) -> bool:
    if not isinstance(value, str) or value.strip().lower() not in _BOOLEANS:
        raise _NotUnderstood
    return _BOOLEANS[value.strip().lower()]


def _read_integer(value: Any) -> int:
    number = _read_number(value) if isinstance(value, str) else value
    if not _is_number(number) or int(number) != number:
        raise _NotUnderstood
    return int(number)


def _read_number(value: Any) -> int | float:
    if not isinstance(value, str) or len(value) > MAX_PROBLEMS * 8:
        raise _NotUnderstood
    try:
        number = float(value)
    except ValueError:
        raise _NotUnderstood from None
    if not math.isfinite(number):
        raise _NotUnderstood
    return int(number) if number.is_integer() else number


def _read_list(value: Any) -> list[Any]:
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            parsed = parse_json(value.strip())
        except UnusableCall:
            raise _NotUnderstood from None
        if isinstance(parsed, list):
            return parsed
    elif isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    raise _NotUnderstood


def _read_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, str):
        raise _NotUnderstood
    try:
        parsed = parse_json(value.strip())
    except UnusableCall:
        raise _NotUnderstood from None
    if not isinstance(parsed, dict):
        raise _NotUnderstood
    return parsed


def _read_time(value: str, *, is_end: bool) -> str:
    """Return a time with its zone: of a date its first moment, or its last one where it is an end."""
    if _DATE.fullmatch(value):
        return f"{value}T23:59:59.999Z" if is_end else f"{value}T00:00:00Z"
    time = _TIME_WITHOUT_ZONE.fullmatch(value)
    if time is None:
        raise _NotUnderstood
    date, clock, zone = time.groups()
    read = f"{date}T{clock if clock.count(':') == 2 else clock + ':00'}{zone or 'Z'}"
    if read == value:
        raise _NotUnderstood
    return read


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "int_type": _read_integer,
    "int_from_float": _read_integer,
    "float_type": _read_number,
    "bool_type": _read_boolean,
    "string_type": _read_text,
    "list_type": _read_list,
    "dict_type": _read_object,
}
"""Functions that read a value again, by the error of pydantic."""
