"""What a filter says, as a tree; and the document of our own making that asks MongoDB for it.

The document means the same in the filter of `$vectorSearch` and in a `find`, so that hits can be filtered again when
they are read. Everything negative holds for chunks that have no value at all, in both.
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
    operator: Literal["$gt", "$gte", "$lt", "$lte"]
    bound: str


@dataclass(frozen=True, slots=True)
class MetadataCompared:
    """Facts of a metadata key that only a filter path of its own can tell."""

    key: str
    operator: Literal["$ne", "$gt", "$gte", "$lt", "$lte"]
    value: Scalar
    field: str
    """Path of the clause in the request, for errors."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The document was uploaded in this time, both ends included."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class AllHold:
    clauses: "tuple[Clause, ...]"


@dataclass(frozen=True, slots=True)
class AnyHolds:
    clauses: "tuple[Clause, ...]"


Clause: TypeAlias = AnyOf | NoneOf | NameCompared | MetadataCompared | Uploaded | AllHold | AnyHolds


def to_mql(clause: Clause) -> Row:
    match clause:
        case AnyOf(path, values):
            return {path: {"$in": list(values)}}
        case NoneOf(path, values):
            return {path: {"$nin": list(values)}}
        case NameCompared(operator, bound):
            return {"document_name": {operator: bound}}
        case MetadataCompared(key, operator, value):
            return {f"metadata_snapshot.{key}": {operator: value}}
        case Uploaded(since, until):
            bounds = {"$gte": since, "$lte": until}
            return {"upload_date": {operator: date for operator, date in bounds.items() if date is not None}}
        case AllHold(clauses) | AnyHolds(clauses):
            combination = "$and" if isinstance(clause, AllHold) else "$or"
            return {combination: [to_mql(one) for one in clauses]}


def metadata_compared(clauses: Iterable[Clause]) -> Iterator[MetadataCompared]:
    """Find all comparisons of metadata, however deep."""
    for clause in clauses:
        match clause:
            case MetadataCompared():
                yield clause
            case AllHold(parts) | AnyHolds(parts):
                yield from metadata_compared(parts)
            case _:
                pass
