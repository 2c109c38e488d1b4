"""Inverted indexes: the rows with each filter value, for each declared filter path."""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kb_local.search_node.errors import search_error
from kb_local.search_node.filters import (
    AllOfFilter,
    AnyOfFilter,
    ExistsFilter,
    FilterClause,
    NotFilter,
    OneOfFilter,
    RangeFilter,
)
from kb_local.search_node.row_lists import Mask
from kb_local.search_node.values import FilterKey, stored_key, values_at

# What a row without the field is filed under; no value of a document has this type.
ABSENT: FilterKey = ("absent", 0)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class Postings:
    """Answers filters with one boolean per row."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._rows: dict[str, dict[FilterKey, set[int]]] = {path: {} for path in paths}
        self._filed: dict[int, list[tuple[str, FilterKey]]] = {}
        # Filters repeat (a tenant, a knowledge base); a mask lives until the next change.
        self._masks: dict[tuple[str, FilterKey], Mask] = {}

    def add(self, row: int, document: Mapping[str, Any]) -> None:
        filed = [(path, key) for path in self._rows for key in _keys_of(document, path)]
        for path, key in filed:
            self._rows[path].setdefault(key, set()).add(row)
        self._filed[row] = filed
        self._masks.clear()

    def remove(self, row: int) -> None:
        for path, key in self._filed.pop(row, ()):
            rows = self._rows[path][key]
            rows.discard(row)
            if not rows:
                del self._rows[path][key]
        self._masks.clear()

    def mask(self, clause: FilterClause, *, rows: int) -> Mask:
        """Return which of the first `rows` rows satisfy the clause; meaningless for rows that were removed.

        Raises:
            CommandError: a path is not declared as a filter.
        """
        match clause:
            case AllOfFilter(clauses):
                every = np.ones(rows, bool)
                for part in clauses:
                    every &= self.mask(part, rows=rows)
                return every
            case AnyOfFilter(clauses):
                some = np.zeros(rows, bool)
                for part in clauses:
                    some |= self.mask(part, rows=rows)
                return some
            case NotFilter(part):
                return ~self.mask(part, rows=rows)
            case ExistsFilter(path):
                self._check_declared(path)
                return ~self._rows_with_value(path, ABSENT, rows=rows)
            case OneOfFilter(path, keys):
                return self._one_of(path, keys, rows=rows)
            case RangeFilter(path, comparison, bound):
                return self._range(path, comparison, bound=bound, rows=rows)

    def _one_of(self, path: str, keys: tuple[FilterKey, ...], *, rows: int) -> Mask:
        self._check_declared(path)
        if len(keys) == 1:
            return self._rows_with_value(path, keys[0], rows=rows)
        return self._to_mask(set().union(*(self._rows[path].get(key, ()) for key in keys)), rows=rows)

    def _range(self, path: str, comparison: str, *, bound: FilterKey, rows: int) -> Mask:
        self._check_declared(path)
        compare = COMPARISONS[comparison]
        kind, limit = bound
        matching = (
            holding
            for (of_kind, value), holding in self._rows[path].items()
            if of_kind == kind and compare(value, limit)
        )
        return self._to_mask(set().union(*matching), rows=rows)

    def _check_declared(self, path: str) -> None:
        if path not in self._rows:
            raise search_error(f"Path '{path}' needs to be indexed as filter")

    def _rows_with_value(self, path: str, key: FilterKey, *, rows: int) -> Mask:
        mask = self._masks.get((path, key))
        if mask is None or len(mask) != rows:
            mask = self._masks[path, key] = self._to_mask(self._rows[path].get(key, set()), rows=rows)
        return mask

    @staticmethod
    def _to_mask(members: set[int], *, rows: int) -> Mask:
        mask = np.zeros(rows, bool)
        mask[np.fromiter(members, np.int64, len(members))] = True
        return mask


def _keys_of(document: Mapping[str, Any], path: str) -> set[FilterKey]:
    found = values_at(document, path)
    if not found:
        return {ABSENT}
    flat = (element for value in found for element in (value if isinstance(value, list) else [value]))
    return {key for element in flat if (key := stored_key(element)) is not None}
