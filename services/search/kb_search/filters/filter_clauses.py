"""A filter as a tree of clauses, and its translation to MQL.

The MQL means the same in the filter of `$vectorSearch` and in a `find`, so that candidates can be filtered again when
they are read. In both, a negative clause also matches chunks without a value.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from kb_shared.mongo.database import Row

Scalar: TypeAlias = str | int | float | bool | datetime
Path: TypeAlias = Literal["document_id", "document_name", "tag_ids", "metadata_pairs"]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field has, or as a list contains, one of the values."""

    path: Path
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """The field has, or as a list contains, none of the values."""

    path: Path
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NameCompared:
    """A comparison of the document's name by code points."""

    operator: Literal["$gt", "$gte", "$lt", "$lte"]
    bound: str


@dataclass(frozen=True, slots=True)
class NameContains:
    """The name of the document contains this text, in upper or lower case. `resolve_names` replaces it."""

    part: str
    field: str
    """Path of the clause in the request, for errors."""


@dataclass(frozen=True, slots=True)
class MetadataCompared:
    """A comparison of a metadata key that needs a filter path for this key in the indexes."""

    key: str
    operator: Literal["$ne", "$gt", "$gte", "$lt", "$lte"]
    value: Scalar
    field: str
    """Path of the clause in the request, for errors."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The document was uploaded in this time range, both ends included."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class AllHold:
    """All clauses hold."""

    clauses: "tuple[Clause, ...]"


@dataclass(frozen=True, slots=True)
class AnyHolds:
    """At least one clause holds."""

    clauses: "tuple[Clause, ...]"


Clause: TypeAlias = AnyOf | NoneOf | NameCompared | NameContains | MetadataCompared | Uploaded | AllHold | AnyHolds


def to_mql(clause: Clause) -> Row:
    """Translate a clause to MQL."""
    match clause:
        case AnyOf(path, values):
            return {path: {"$in": list(values)}}
        case NoneOf(path, values):
            return {path: {"$nin": list(values)}}
        case NameCompared(operator, bound):
            return {"document_name": {operator: bound}}
        case NameContains():
            raise ValueError("parts of names must be resolved before")
        case MetadataCompared(key, operator, value):
            return {f"metadata_snapshot.{key}": {operator: value}}
        case Uploaded(since, until):
            bounds = {"$gte": since, "$lte": until}
            return {"upload_date": {operator: date for operator, date in bounds.items() if date is not None}}
        case AllHold(clauses) | AnyHolds(clauses):
            combination = "$and" if isinstance(clause, AllHold) else "$or"
            return {combination: [to_mql(one) for one in clauses]}


def metadata_compared(clauses: Iterable[Clause]) -> Iterator[MetadataCompared]:
    """Yield all comparisons of metadata, at any depth."""
    for clause in clauses:
        match clause:
            case MetadataCompared():
                yield clause
            case AllHold(parts) | AnyHolds(parts):
                yield from metadata_compared(parts)
            case _:
                pass
