"""One path of a text index by its values: tokens, numbers, dates, booleans, ids."""

import operator
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node.clauses import Bound
from kb_local.search_node.row_lists import Mask, mask_of, numbers, renumber
from kb_local.search_node.values import FilterKey

# BSON's order of types, in which sorting puts values of different ones; what has no value comes first.
TYPE_ORDER = ("null", "number", "string", "uuid", "objectId", "boolean", "date")


class ValueField:
    """Rows by value. Rows are only added; the caller knows which of them still count."""

    def __init__(self) -> None:
        self._rows: dict[FilterKey, array[int]] = {}
        self._keys: dict[int, tuple[FilterKey, ...]] = {}

    def add(self, row: int, keys: Iterable[FilterKey]) -> None:
        distinct = tuple(dict.fromkeys(keys))
        self._keys[row] = distinct
        for key in distinct:
            rows = self._rows.get(key)
            if rows is None:
                rows = self._rows[key] = numbers()
            rows.append(row)

    def drop(self, row: int) -> None:
        self._keys.pop(row, None)

    def rows_with_value(self, keys: Iterable[FilterKey], *, count: int) -> Mask:
        """Return which of the first `count` rows have one of the values."""
        found = np.zeros(count, bool)
        for key in keys:
            if (rows := self._rows.get(key)) is not None:
                found |= mask_of(rows, count=count)
        return found

    def rows_in_range(self, lower: Bound | None, upper: Bound | None, *, count: int) -> Mask:
        return self.rows_with_value([key for key in self._rows if _is_within(key, lower, upper=upper)], count=count)

    def sort_value(self, row: int, *, descending: bool) -> tuple[int, object]:
        """Return what a row is sorted by: of several values the one that comes first in this direction."""
        keys = self._keys.get(row)
        if not keys:
            return 0, 0
        orders = [(TYPE_ORDER.index(kind), value) for kind, value in keys]
        return max(orders) if descending else min(orders)

    def compact(self, new_number: NDArray[np.int64]) -> None:
        """Give the rows new numbers, and forget those that have none (-1)."""
        kept = {key: renumber(rows, new_number) for key, rows in self._rows.items()}
        self._rows = {key: rows for key, rows in kept.items() if rows}
        self._keys = {int(new_number[row]): keys for row, keys in self._keys.items()}


class PathRows:
    """Rows that have a value, for each path."""

    def __init__(self) -> None:
        self._rows: dict[str, array[int]] = {}

    def add(self, row: int, paths: Iterable[str]) -> None:
        for path in paths:
            rows = self._rows.get(path)
            if rows is None:
                rows = self._rows[path] = numbers()
            rows.append(row)

    def rows_with_path(self, path: str, *, count: int) -> Mask:
        rows = self._rows.get(path)
        return np.zeros(count, bool) if rows is None else mask_of(rows, count=count)

    def compact(self, new_number: NDArray[np.int64]) -> None:
        kept = {path: renumber(rows, new_number) for path, rows in self._rows.items()}
        self._rows = {path: rows for path, rows in kept.items() if rows}


def _is_within(key: FilterKey, lower: Bound | None, *, upper: Bound | None) -> bool:
    kind, value = key
    for bound, beyond, at_least in ((lower, operator.gt, operator.ge), (upper, operator.lt, operator.le)):
        if bound is None:
            continue
        if bound.key[0] != kind or not (at_least if bound.inclusive else beyond)(value, bound.key[1]):
            return False
    return True
