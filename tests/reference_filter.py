"""A simple second implementation of `metadata_filter`, which tests compare the real one with."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


@dataclass(frozen=True)
class ReferenceDocument:
    """Fields of a document that a filter can use, as its upstream knows them."""

    name: str = "a.pdf"
    tag_ids: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def values(self, key: str) -> Sequence[Any]:
        if key == "document_name":
            return [self.name]
        if key == "tag_ids":
            return self.tag_ids
        return [value for name, value in self.metadata.items() if name == key]


def matches_filter(metadata_filter: Mapping[str, Any], document: ReferenceDocument) -> bool:
    """Return whether a valid filter matches the document."""
    return all(_key_holds(key, value, document) for key, value in metadata_filter.items())


def _key_holds(key: str, value: Any, document: ReferenceDocument) -> bool:
    if key == "$and":
        return all(matches_filter(one, document) for one in value)
    if key == "$or":
        return any(matches_filter(one, document) for one in value)
    if isinstance(value, list):
        value = {"$in": value}
    if not isinstance(value, dict) or "$date" in value:
        value = {"$eq": value}
    return all(_operator_holds(name, operand, document.values(key)) for name, operand in value.items())


def _operator_holds(name: str, operand: Any, values: Sequence[Any]) -> bool:
    match name:
        case "$eq":
            return any(equal(value, _said(operand)) for value in values)
        case "$in":
            return any(equal(value, _said(one)) for value in values for one in operand)
        case "$contains":
            return any(operand.lower() in value.lower() for value in values)
        case "$ne" | "$nin":
            return not _operator_holds("$eq" if name == "$ne" else "$in", operand, values)
    bound = _said(operand)
    return any(_comparable(value, bound) and ORDERS[name](value, bound) for value in values)


def equal(value: Any, wanted: Any) -> bool:
    """As people mean it: 1 is 1.0, but neither True nor "1"."""
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _said(operand: Any) -> Any:
    """A time is said in JSON."""
    return datetime.fromisoformat(operand["$date"]) if isinstance(operand, dict) else operand


def _comparable(value: Any, bound: Any) -> bool:
    """Texts with texts, numbers with numbers, times with times."""
    if isinstance(value, bool):
        return False
    return all(isinstance(value, kind) == isinstance(bound, kind) for kind in (str, datetime))
