"""Reads `metadata_filter`, honest or hostile, into clauses.

A key is `document_name`, `tag_ids` or a metadata key; it has a value to equal, a list to equal any of, or operators,
which must all hold. `$and` and `$or` combine such filters. A time is `{"$date": "2026-01-31T12:00:00Z"}`. Everything
else is refused by the name of its key.
Equality on metadata goes through `metadata_pairs`, where every key has its values.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from kb_contracts.documents import MAX_METADATA_VALUE_CHARACTERS
from kb_search.filters.filter_clauses import (
    AllHold,
    AnyHolds,
    AnyOf,
    Clause,
    MetadataCompared,
    NameCompared,
    NoneOf,
    Scalar,
)
from kb_search.filters.filter_errors import FilterError
from kb_shared.filter_keys import INSTEAD, UNSAFE_NAMES
from kb_shared.http.model import Timestamp
from kb_shared.text.metadata_pairs import metadata_pair

MAX_CLAUSES: Final = 50
MAX_VALUES: Final = 100
MAX_DEPTH: Final = 3
"""Depth of nested `$and` and `$or`."""
METADATA_KEY_PATTERN: Final = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
MAX_KEY_CHARACTERS: Final = 64

Operator: TypeAlias = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte"]
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

DATE: Final = "$date"

_ROOT: Final = "metadata_filter"
_TIMESTAMP: Final = TypeAdapter[datetime](Timestamp)
_SHOWN_KEY_CHARACTERS: Final = 64
_METADATA_KEY: Final = re.compile(METADATA_KEY_PATTERN)


def parse_metadata_filter(source: Mapping[str, Any]) -> list[Clause]:
    """Give the clauses that must all hold.

    Raises:
        FilterError: and nothing else.
    """
    return _Reader().clauses(source, _ROOT, depth=0)


class _Reader:
    """Reads one filter, and counts what it holds as it goes: what is too large is not read to its end."""

    def __init__(self) -> None:
        self._clauses_left = MAX_CLAUSES
        self._values_left = MAX_VALUES

    def clauses(self, source: Mapping[str, Any], where: str, *, depth: int) -> list[Clause]:
        return [clause for key, value in source.items() for clause in self._of_key(key, value, where, depth)]

    def _of_key(self, key: str, value: object, where: str, depth: int) -> Iterator[Clause]:
        field = _field(where, key)
        if key in ("$and", "$or"):
            parts = tuple(self._combined(value, field, depth=depth + 1))
            yield AllHold(parts) if key == "$and" else AnyHolds(parts)
            return
        _check_key(key, field)
        for operator, operand in _conditions(value, field):
            self._count_clause()
            wanted = self._values(operator, operand, field)
            yield _clause(key, operator, wanted, field)

    def _combined(self, filters: object, field: str, *, depth: int) -> Iterator[Clause]:
        if depth > MAX_DEPTH:
            raise FilterError(field, f"$and and $or must be nested at most {MAX_DEPTH} deep", reason="size")
        if not isinstance(filters, list) or not filters:
            raise FilterError(field, "must be a list of at least one filter", reason="value")
        for number, one in enumerate(filters):
            if not isinstance(one, dict) or not one:
                raise FilterError(field, "must list filters with at least one key each", reason="value")
            parts = self.clauses(one, f"{field}.{number}", depth=depth)
            yield parts[0] if len(parts) == 1 else AllHold(tuple(parts))

    def _count_clause(self) -> None:
        self._clauses_left -= 1
        if self._clauses_left < 0:
            raise FilterError(_ROOT, f"must have at most {MAX_CLAUSES} keys with an operator in all", reason="size")

    def _values(self, operator: Operator, operand: object, field: str) -> list[Scalar]:
        wanted = _scalars(operand, field) if operator in ("$in", "$nin") else [_scalar(operand, field)]
        self._values_left -= len(wanted)
        if self._values_left < 0:
            raise FilterError(field, f"metadata_filter must have at most {MAX_VALUES} values in all", reason="size")
        return wanted


def _field(where: str, key: str) -> str:
    """Name a key in an error, however hostile it is."""
    shown = key[:_SHOWN_KEY_CHARACTERS].encode(errors="backslashreplace").decode()
    return f"{where}.{shown}"


def _check_key(key: str, field: str) -> None:
    if key.startswith("$"):
        raise FilterError(field, "of operators only $and and $or can stand in place of a key", reason="operator")
    if len(key) > MAX_KEY_CHARACTERS or not _METADATA_KEY.fullmatch(key):
        raise FilterError(
            field,
            f"must be document_name, tag_ids or a metadata key of 1 to {MAX_KEY_CHARACTERS} letters, digits, _ or -, "
            "and . between them",
            reason="key",
        )
    if not set(UNSAFE_NAMES).isdisjoint(key.split(".")):
        raise FilterError(field, f"can't be a filter key, nor can any with {', '.join(UNSAFE_NAMES)}", reason="key")
    if hint := INSTEAD.get(key.partition(".")[0]):
        raise FilterError(field, f"can't be a filter key: {hint}", reason="key")


def _conditions(value: object, field: str) -> Iterator[tuple[Operator, object]]:
    """Give the operators of a key with their operands; a bare value equals, of a list any may equal."""
    if isinstance(value, list):
        yield "$in", value
    elif not isinstance(value, dict) or _is_date(value):
        yield "$eq", value
    elif not value:
        raise FilterError(field, "must have a value or an operator", reason="value")
    else:
        for name, operand in value.items():
            yield _operator(name, field), operand


def _is_date(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {DATE}


def _operator(name: str, field: str) -> Operator:
    for operator in OPERATORS:
        if name == operator:
            return operator
    raise FilterError(field, f"must be a value, a list of values, or one of {', '.join(OPERATORS)}", reason="operator")


def _scalars(values: object, field: str) -> list[Scalar]:
    """Give the values of a list; each equals one that a document may have."""
    if not isinstance(values, list) or not values:
        raise FilterError(field, "must list at least one value", reason="value")
    if len(values) > MAX_VALUES:
        raise FilterError(field, f"must list at most {MAX_VALUES} values", reason="size")
    return [_scalar(one, field) for one in values]


def _scalar(value: object, field: str) -> Scalar:
    match value:
        case bool():
            return value
        case str():
            return _string(value, field)
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
        case int() | float():
            raise FilterError(field, "must be a finite number, an integer within 64 bits", reason="value")
        case dict() if _is_date(value):
            return _date(value[DATE], field)
    raise FilterError(field, "must be a string, number, boolean or $date, or a list of them", reason="value")


def _date(value: object, field: str) -> datetime:
    try:
        return _TIMESTAMP.validate_python(value)
    except ValidationError:
        raise FilterError(
            field, "must have an RFC 3339 time with its offset as $date, such as 2026-01-31T12:00:00Z", reason="value"
        ) from None


def _string(value: str, field: str) -> str:
    if len(value) > MAX_METADATA_VALUE_CHARACTERS:
        raise FilterError(field, f"must be at most {MAX_METADATA_VALUE_CHARACTERS} characters", reason="size")
    if "\x00" in value:
        raise FilterError(field, "must not contain NUL characters", reason="value")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FilterError(field, "must be valid Unicode without lone surrogates", reason="value") from None
    return value


def _clause(key: str, operator: Operator, wanted: list[Scalar], field: str) -> Clause:
    match key:
        case "document_name" | "tag_ids":
            return _clause_of_document(key, operator, tuple(_only_strings(wanted, field)), field)
        case _:
            return _clause_of_metadata(key, operator, wanted, field)


def _clause_of_document(
    key: Literal["document_name", "tag_ids"], operator: Operator, wanted: tuple[str, ...], field: str
) -> Clause:
    match operator:
        case "$eq" | "$in":
            return AnyOf(key, wanted)
        case "$ne" | "$nin":
            return NoneOf(key, wanted)
    if key == "tag_ids":
        raise FilterError(field, "has no order: use $eq, $ne, $in or $nin", reason="operator")
    return NameCompared(operator, wanted[0])


def _clause_of_metadata(key: str, operator: Operator, wanted: list[Scalar], field: str) -> Clause:
    match operator:
        case "$eq" | "$in":
            return AnyOf("metadata_pairs", tuple(metadata_pair(key, value) for value in wanted))
        case "$ne" | "$nin":
            # One by one, because a search index takes values of one type only in a $nin.
            return AllHold(tuple(MetadataCompared(key, "$ne", value, field) for value in wanted))
    if isinstance(wanted[0], bool):
        raise FilterError(field, f"{operator} takes a string, a number or a $date", reason="value")
    return MetadataCompared(key, operator, wanted[0], field)


def _only_strings(wanted: Iterable[Scalar], field: str) -> Iterator[str]:
    for value in wanted:
        if not isinstance(value, str):
            raise FilterError(field, "must be a string or a list of strings", reason="value")
        yield value
