"""The `filter` of a `$vectorSearch`: what may be asked, as a tree of clauses."""

from dataclasses import dataclass
from typing import Any, Literal

from kb_local.search_node.errors import search_error
from kb_local.search_node.values import FilterKey, filter_key

OPERATORS = ("$gt", "$gte", "$lt", "$lte", "$eq", "$ne", "$in", "$nin", "$exists", "$not")
RangeOperator = Literal["$gt", "$gte", "$lt", "$lte"]


@dataclass(frozen=True, slots=True)
class AllOfFilter:
    clauses: tuple["FilterClause", ...]


@dataclass(frozen=True, slots=True)
class AnyOfFilter:
    clauses: tuple["FilterClause", ...]


@dataclass(frozen=True, slots=True)
class NotFilter:
    clause: "FilterClause"


@dataclass(frozen=True, slots=True)
class OneOfFilter:
    path: str
    keys: tuple[FilterKey, ...]


@dataclass(frozen=True, slots=True)
class RangeFilter:
    path: str
    operator: RangeOperator
    bound: FilterKey


@dataclass(frozen=True, slots=True)
class ExistsFilter:
    path: str


FilterClause = AllOfFilter | AnyOfFilter | NotFilter | OneOfFilter | RangeFilter | ExistsFilter


def parse_filter(source: object, where: str = "filter") -> FilterClause:
    """Read a filter document; `where` names it in error texts."""
    if not isinstance(source, dict):
        raise search_error(f"{where} must be a document")
    return AllOfFilter(tuple(_clause(key, value, where=where) for key, value in source.items()))


def _clause(key: str, value: Any, *, where: str) -> FilterClause:
    if not key.startswith("$"):
        return _path_clause(key, value, where=f"{where}.{key}")
    if key not in ("$and", "$or", "$nor"):
        raise search_error(f'"{where}" unrecognized field "{key}"')
    if not isinstance(value, list):
        raise search_error(f'"{where}.{key}" must be an array')
    if not value:
        raise search_error(f'"{where}.{key}" cannot be empty')
    clauses = tuple(parse_filter(part, f"{where}.{key}[{number}]") for number, part in enumerate(value))
    if key == "$and":
        return AllOfFilter(clauses)
    return AnyOfFilter(clauses) if key == "$or" else NotFilter(AnyOfFilter(clauses))


def _path_clause(path: str, condition: Any, *, where: str) -> FilterClause:
    if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
        condition = {"$eq": condition}
    return AllOfFilter(
        tuple(_operator_clause(path, operator, value=value, where=where) for operator, value in condition.items())
    )


def _operator_clause(path: str, operator: str, *, value: Any, where: str) -> FilterClause:
    where_operator = f"{where}.{operator}"
    clause: FilterClause
    match operator:
        case "$eq" | "$ne":
            clause = OneOfFilter(path, (_key(value, where_operator),))
        case "$in" | "$nin":
            clause = OneOfFilter(path, _keys(value, where_operator))
        case "$gt" | "$gte" | "$lt" | "$lte":
            clause = RangeFilter(path, operator, _key(value, where_operator))
        case "$exists":
            if not isinstance(value, bool):
                raise search_error(f'"{where_operator}" must be a boolean')
            clause = ExistsFilter(path) if value else NotFilter(ExistsFilter(path))
        case "$not":
            if not (isinstance(value, dict) and value and all(key.startswith("$") for key in value)):
                raise search_error(f'"{where_operator}" must be a document of operators')
            clause = NotFilter(_path_clause(path, value, where=where_operator))
        case _:
            raise search_error(f'"{where}" at least one of [{", ".join(OPERATORS)}] must be present')
    return NotFilter(clause) if operator in ("$ne", "$nin") else clause


def _key(value: object, where: str) -> FilterKey:
    key = filter_key(value)
    if key is None:
        raise search_error(f'"{where}" must be a boolean, objectId, number, string, date, uuid, or null')
    return key


def _keys(values: object, where: str) -> tuple[FilterKey, ...]:
    if not isinstance(values, list):
        raise search_error(f'"{where}" must be an array')
    if not values:
        raise search_error(f'"{where}" cannot be empty')
    keys = tuple(_key(value, f"{where}[{number}]") for number, value in enumerate(values))
    kinds = {kind for kind, _ in keys}
    if "null" in kinds:
        raise search_error(f'"{where}" cannot contain null')
    if len(kinds) > 1:
        raise search_error(f'"{where}" must have elements of the same type')
    return keys
