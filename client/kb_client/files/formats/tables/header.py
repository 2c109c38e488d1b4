"""Finds the row of a table that names its columns, where no mark says which one it is.

A row is a header only if something says so: the rows below are of another kind (numbers, dates, long texts), or its
words are such as name columns. A header that is missed costs a little context; a value that is taken for a name makes
wrong facts of all rows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from kb_client.files.formats.tables.column_names import is_column_name
from kb_client.files.formats.tables.value_kinds import DATA, MEASURED, CellKind, kind_of

CellTexts = tuple[str, ...]


class Merged(str):
    """Text of a cell that is merged with the one before it in its row, which has the same text."""

    __slots__ = ()


_ROWS_BEFORE_HEADER: Final = 10
_FULL_SHARE: Final = 0.6
"""Share of the usual number of cells that a row has which is no title above the table."""
_UNIFORM_SHARE: Final = 0.7
_FEW_ROWS: Final = 3
_ENOUGH_ROWS: Final = 2
_MANY_ROWS: Final = 8
_ROWS_THAT_REPEAT: Final = 6
_LONG_CHARACTERS: Final = 60
_LONG_FACTOR: Final = 3
_SHORTEST_SERIES: Final = 3
_TWO: Final = 2


class BoldRow(tuple[str, ...]):
    """A row whose texts are all bold, which can mean that they are names of columns."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TableHeader:
    names: CellTexts
    """Names of the columns; empty for a column without one."""
    first: int = 0
    """Number of the rows above it."""
    after: int = 0
    """Number of the rows above the first one that it names."""
    measured: frozenset[int] = field(default=frozenset())
    """Columns whose values are measured, such as numbers and dates."""


def join_names(rows: Sequence[CellTexts]) -> CellTexts:
    """Return the names of columns that have one or several rows of names, such as `2025 Plan`.

    A name above others is empty, or repeated, beside the first column that it is about.
    """
    width = max(map(len, rows))
    levels = [_spread(row, rows[at + 1 :], width) for at, row in enumerate(rows)]
    return tuple(" ".join(dict.fromkeys(filter(None, parts))) for parts in zip(*levels, strict=True))


def find_header(rows: Sequence[CellTexts]) -> TableHeader | None:
    """Return the header of a table; None if nothing says that it has one.

    Only the first row that is as full as the others can be one, or the one below it that it groups.
    """
    usual = Counter(_count(row) for row in rows).most_common(1)[0][0] if rows else 0
    full = max(_TWO, _FULL_SHARE * usual)
    at = next((at for at, row in enumerate(rows[:_ROWS_BEFORE_HEADER]) if _count(row) >= full), None)
    if at is None:
        return None
    for names_at in (at + 1, at):
        above = rows[names_at - 1 : names_at] if names_at and _groups(rows, names_at) else []
        if names_at > at and not above:
            continue
        names = join_names([*above, *rows[names_at : names_at + 1]])
        table = _HeaderCandidate(names, [row for row in rows[names_at + 1 :] if row != rows[names_at]])
        if table.has_header() or (above == [] and _stands_out(rows, names_at)):
            return TableHeader(names, names_at - len(above), names_at + 1, table.measured())
    return None


def names_fit(header: TableHeader, rows: Sequence[CellTexts]) -> bool:
    """Return whether rows below an empty one go on with the table above it: what was measured there is here, too."""
    rows = [row for row in rows if _count(row) > 1]
    cells = [cell for row in rows for at, cell in enumerate(row) if cell and at in header.measured]
    return (
        bool(cells)
        and all(kind_of(cell) in MEASURED | {CellKind.EMPTY} for cell in cells)
        and all(not any(row[len(header.names) :]) for row in rows)
    )


def _stands_out(rows: Sequence[CellTexts], at: int) -> bool:
    """Return whether a row is bold, and those below it are not."""
    below = rows[at + 1 :]
    return isinstance(rows[at], BoldRow) and bool(below) and not any(isinstance(row, BoldRow) for row in below)


def _spread(row: CellTexts, below: Sequence[CellTexts], width: int) -> list[str]:
    """Repeat the names of groups over their columns. The lowest row has a name for each column."""
    names = [*row, *[""] * (width - len(row))]
    if below:
        for at, (before, name) in enumerate(pairwise(names), 1):
            if before and not name and any(len(other) > at and other[at] for other in below):
                names[at] = before
    return names


def _groups(rows: Sequence[CellTexts], at: int) -> bool:
    """Return whether the row above that at `at` groups its names: some are needed twice, or lack one of their own."""
    if at >= len(rows):
        return False
    above, names = rows[at - 1], rows[at]
    filled = [name for name in names if name]
    if not _count(above) or any(kind_of(cell) in MEASURED - {CellKind.YEAR, CellKind.DATE} for cell in above if cell):
        return False
    spans = any(
        before and (not cell or cell == before) and at < len(names) and names[at]
        for at, (before, cell) in enumerate(pairwise([*above, *[""] * (len(names) - len(above))]), 1)
    )
    lacking = any(cell and not (at < len(names) and names[at]) for at, cell in enumerate(above))
    return spans and (len(set(filled)) < len(filled) or lacking)


def _count(row: Iterable[str]) -> int:
    return sum(1 for cell in row if cell and not isinstance(cell, Merged))


class _HeaderCandidate:
    """Candidate for a header, with the rows below it."""

    def __init__(self, names: CellTexts, below: Sequence[CellTexts]) -> None:
        self._names = {at: name for at, name in enumerate(names) if name}
        self._below = below
        width = max(map(len, below), default=0)
        filled = [[row[at] for row in below if at < len(row) and row[at]] for at in range(width)]
        self._unnamed = sum(
            1 for at, cells in enumerate(filled) if at not in self._names and 2 * len(cells) > len(below)
        )
        self._values = {
            at: [cell for cell in cells if kind_of(cell) is not CellKind.EMPTY] for at, cells in enumerate(filled)
        }
        self._kinds = {at: [kind_of(cell) for cell in cells] for at, cells in self._values.items()}
        self._name_kinds = {at: kind_of(name) for at, name in self._names.items()}

    def measured(self) -> frozenset[int]:
        return frozenset(at for at in self._values if self._uniform(at, MEASURED))

    def has_header(self) -> bool:
        if len(self._names) < _TWO or not any(map(self._values.get, self._names)) or self._unnamed > 1:
            return False
        if any(name in self._values.get(at, ()) for at, name in self._names.items()):
            return False
        series = self._series()
        words = self._vocabulary()
        odd = {at for at, kind in self._name_kinds.items() if kind in DATA and kind in self._kinds.get(at, ())}
        odd |= {at for at, kind in self._name_kinds.items() if kind is CellKind.STATE} - words
        if odd - series:
            return False
        strong = self._columns_that_differ(MEASURED | {CellKind.STATE}, rows=1)
        if len(self._names.keys() | {at for at, values in self._values.items() if values}) == _TWO:
            return self._two_columns(words, strong)
        weak = self._columns_that_differ(DATA, rows=_ENOUGH_ROWS) | self._long_columns() | self._repeating_columns()
        return (
            2 * len(words) >= len(self._names)
            or (len(series) >= (1 if words else _TWO) and not self._is_series_below(series))
            or (
                bool(strong)
                and (len(self._below) >= _ENOUGH_ROWS or 2 * len(strong) >= len(self._names) or bool(words))
            )
            or len(weak) >= _TWO
            or (bool(weak) and bool(words) and len(self._below) > _ENOUGH_ROWS)
        )

    def _two_columns(self, words: set[int], strong: set[int]) -> bool:
        """Decide of two columns, which are more often labels with their values: `label: value` is right for both."""
        first, second = sorted(self._names)
        return (
            words == {first, second}
            or (first in strong and self._name_kinds[second] is CellKind.TEXT)
            or (second in strong and len(self._values[second]) >= _MANY_ROWS)
            or (second in words and (second in strong or second in self._long_columns()))
        )

    def _uniform(self, at: int, kinds: frozenset[CellKind], *, rows: int = 1) -> bool:
        """Return whether nearly all values of a column are of one of the kinds."""
        found = self._kinds.get(at, [])
        if len(found) < rows:
            return False
        kind, count = Counter(_family(kind) for kind in found).most_common(1)[0]
        return kind in kinds and count >= (_UNIFORM_SHARE if len(found) > _FEW_ROWS else 1) * len(found)

    def _columns_that_differ(self, kinds: frozenset[CellKind], *, rows: int) -> set[int]:
        return {
            at
            for at, kind in self._name_kinds.items()
            if kind not in MEASURED | {CellKind.STATE}
            and self._uniform(at, kinds, rows=rows)
            and kind not in self._kinds[at]
        }

    def _vocabulary(self) -> set[int]:
        return {
            at
            for at, name in self._names.items()
            if is_column_name(name) and not any(is_column_name(value) for value in self._values.get(at, ()))
        }

    def _long_columns(self) -> set[int]:
        """Return the columns with sentences below a short name."""
        return {
            at
            for at, name in self._names.items()
            if len(values := self._values.get(at, ())) >= _ENOUGH_ROWS
            and min(map(len, values)) >= max(_LONG_CHARACTERS, _LONG_FACTOR * len(name))
        }

    def _repeating_columns(self) -> set[int]:
        """Return the columns of categories: each value is there again, only the name is not."""
        return {
            at
            for at in self._names
            if len(values := self._values.get(at, ())) >= _ROWS_THAT_REPEAT and min(Counter(values).values()) > 1
        }

    def _series(self) -> set[int]:
        """Return the columns whose names are a series: years, dates, or numbers at equal distances."""
        by_kind = {
            kind: [at for at, each in self._name_kinds.items() if each is kind]
            for kind in set(self._name_kinds.values())
        }
        first = min(self._names.keys() | {at for at, values in self._values.items() if values})
        if self._name_kinds.get(first) in DATA:
            # The column of what the numbers are about.
            return set()
        series = {at for kind in (CellKind.YEAR, CellKind.DATE, CellKind.PERCENT) for at in by_kind.get(kind, ())}
        numbers = by_kind.get(CellKind.NUMBER, [])
        if len(numbers) >= _SHORTEST_SERIES and _steps([self._names[at] for at in numbers]) == 1:
            series |= set(numbers)
        return series

    def _is_series_below(self, series: set[int]) -> bool:
        """Return whether the rows below have the same kind of series, or nothing, in these columns."""
        kinds = {self._name_kinds[at] for at in series}
        values = [kind for at in series for kind in self._kinds.get(at, ())]
        if not values:
            return True
        if kinds == {CellKind.NUMBER}:
            rows = [[row[at] for at in sorted(series) if at < len(row)] for row in self._below]
            return 2 * sum(1 for row in rows if len(row) == len(series) and _steps(row) == 1) > len(rows)
        return 2 * sum(1 for kind in values if kind in kinds) >= len(values)


def _family(kind: CellKind) -> CellKind:
    """Return the kind that stands for a kind: a number can look like a year."""
    return CellKind.NUMBER if kind is CellKind.YEAR else kind


def _steps(cells: Sequence[str]) -> int:
    """Return how many different distances numbers have from those before them; 0 if one is no number, or they fall."""
    if not all(cell.isdigit() for cell in cells):
        return 0
    distances = {int(after) - int(before) for before, after in pairwise(cells)}
    return len(distances) if all(distance > 0 for distance in distances) else 0
