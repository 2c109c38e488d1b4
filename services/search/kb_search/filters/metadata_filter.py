"""Parses `metadata_filter`, which may be hostile, into clauses.

A key is `document_name`, `tag_ids` or a metadata key. Its condition is a value to equal, a list of values to equal any
of, or operators, all of which must hold. `$and` and `$or` combine such filters. A time is
`{"$date": "2026-01-31T12:00:00Z"}`. Everything else is refused with an error that names the key.

Equality on metadata uses the path `metadata_pairs`, which contains all keys with their values.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from kb_contracts.api.filter_keys import INSTEAD, UNSAFE_NAMES
from kb_contracts.api.metadata_filter import (
    DATE,
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_KEY_CHARACTERS,
    MAX_PART_CHARACTERS,
    MAX_VALUES,
    METADATA_KEY_PATTERN,
)
from kb_contracts.api.model import Timestamp
from kb_contracts.metadata import MAX_METADATA_VALUE_CHARACTERS
from kb_contracts.reasons.schema_nodes import node_of
from kb_contracts.reasons.sentences import wrong_time
from kb_contracts.text_rules import storable
from kb_search.filters.filter_clauses import (
    AllHold,
    AnyHolds,
    AnyOf,
    Clause,
    MetadataCompared,
    NameCompared,
    NameContains,
    NoneOf,
    Scalar,
)
from kb_search.filters.filter_errors import FilterError
from kb_shared.text.metadata_pairs import metadata_pair

Operator: TypeAlias = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$contains"]
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

_ROOT: Final = "metadata_filter"
_TIMESTAMP: Final = TypeAdapter[datetime](Timestamp)
_SHOWN_KEY_CHARACTERS: Final = 64
_METADATA_KEY: Final = re.compile(METADATA_KEY_PATTERN)


def parse_metadata_filter(source: Mapping[str, Any]) -> list[Clause]:
    """Parse a filter into clauses, all of which must hold.

    Raises:
        FilterError: The filter is invalid. No other error is raised.
    """
    return _FilterParser().parse(source, _ROOT, depth=0)


class _FilterParser:
    """Parses one filter and counts its clauses and values, so that parsing stops when it is too large."""

    def __init__(self) -> None:
        self._clauses_left = MAX_CLAUSES
        self._values_left = MAX_VALUES

    def parse(self, source: Mapping[str, Any], parent: str, *, depth: int) -> list[Clause]:
        return [
            clause
            for key, value in source.items()
            for clause in self._parse_key(key, value, parent=parent, depth=depth)
        ]

    def _parse_key(self, key: str, value: object, *, parent: str, depth: int) -> Iterator[Clause]:
        field = _field(parent, key)
        if key in ("$and", "$or"):
            parts = tuple(self._parse_combined(value, field, depth=depth + 1))
            yield AllHold(parts) if key == "$and" else AnyHolds(parts)
            return
        _check_key(key, field)
        for operator, operand in _conditions(value, field):
            self._count_clause()
            values = self._values(operator, operand, field=field)
            yield _clause(key, operator, values=values, field=field)

    def _parse_combined(self, filters: object, field: str, *, depth: int) -> Iterator[Clause]:
        if depth > MAX_DEPTH:
            raise FilterError(field, f"$and and $or must be nested at most {MAX_DEPTH} deep", reason="size")
        if not isinstance(filters, list) or not filters:
            raise FilterError(field, "must be a list of at least one filter", reason="value")
        for number, one in enumerate(filters):
            if not isinstance(one, dict) or not one:
                raise FilterError(field, "must list filters with at least one key each", reason="value")
            parts = self.parse(one, f"{field}.{number}", depth=depth)
            yield parts[0] if len(parts) == 1 else AllHold(tuple(parts))

    def _count_clause(self) -> None:
        self._clauses_left -= 1
        if self._clauses_left < 0:
            raise FilterError(_ROOT, f"must have at most {MAX_CLAUSES} keys with an operator in all", reason="size")

    def _values(self, operator: Operator, operand: object, *, field: str) -> list[Scalar]:
        values = _scalars(operand, field) if operator in ("$in", "$nin") else [_scalar(operand, field)]
        self._values_left -= len(values)
        if self._values_left < 0:
            raise FilterError(field, f"metadata_filter must have at most {MAX_VALUES} values in all", reason="size")
        return values


def _field(parent: str, key: str) -> str:
    """Return the path of a key for an error; the key may be hostile."""
    shown = key[:_SHOWN_KEY_CHARACTERS].encode(errors="backslashreplace").decode()
    return f"{parent}.{shown}"


def _check_key(key: str, field: str) -> None:
    if key.startswith("$"):
        raise FilterError(field, "unknown operator: only $and and $or may stand at key level", reason="operator")
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
    """Yield the operators of a key with their operands. A plain value means `$eq`, a list `$in`."""
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
    """Return the values of a list."""
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
    raise FilterError(field, "must be a text, a number, true or false or a $date, or a list of them", reason="value")


def _date(value: object, field: str) -> datetime:
    try:
        return _TIMESTAMP.validate_python(value)
    except ValidationError:
        raise FilterError(field, f"its $date {wrong_time(value, node_of(_TIMESTAMP))}", reason="value") from None


def _string(value: str, field: str) -> str:
    if len(value) > MAX_METADATA_VALUE_CHARACTERS:
        raise FilterError(field, f"must have at most {MAX_METADATA_VALUE_CHARACTERS:,} characters", reason="size")
    try:
        return storable(value)
    except ValueError as error:
        raise FilterError(field, str(error), reason="value") from None


def _clause(key: str, operator: Operator, *, values: list[Scalar], field: str) -> Clause:
    match key:
        case "document_name" | "tag_ids":
            return _clause_of_document(key, operator, values=tuple(_only_strings(values, field)), field=field)
        case _:
            return _clause_of_metadata(key, operator, values=values, field=field)


def _clause_of_document(
    key: Literal["document_name", "tag_ids"], operator: Operator, *, values: tuple[str, ...], field: str
) -> Clause:
    match operator:
        case "$eq" | "$in":
            return AnyOf(key, values)
        case "$ne" | "$nin":
            return NoneOf(key, values)
    if key == "tag_ids":
        raise FilterError(field, "takes only $eq, $ne, $in and $nin: tags have no order", reason="operator")
    if operator == "$contains":
        if not values[0] or len(values[0]) > MAX_PART_CHARACTERS:
            raise FilterError(field, f"$contains takes 1 to {MAX_PART_CHARACTERS} characters", reason="value")
        return NameContains(values[0], field)
    return NameCompared(operator, values[0])


def _clause_of_metadata(key: str, operator: Operator, *, values: list[Scalar], field: str) -> Clause:
    match operator:
        case "$eq" | "$in":
            return AnyOf("metadata_pairs", tuple(metadata_pair(key, value) for value in values))
        case "$ne" | "$nin":
            # One by one, because $nin in a search index takes values of one type only.
            return AllHold(tuple(MetadataCompared(key, "$ne", value, field) for value in values))
        case "$contains":
            raise FilterError(field, "$contains works only on document_name", reason="operator")
    if isinstance(values[0], bool):
        raise FilterError(field, f"{operator} takes a text, a number or a $date", reason="value")
    return MetadataCompared(key, operator, values[0], field)


def _only_strings(values: Iterable[Scalar], field: str) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            raise FilterError(field, "must be a text or a list of texts", reason="value")
        yield value
