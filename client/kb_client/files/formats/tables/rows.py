"""Rows of tables as lines that can be understood alone: a passage may hold any of them without the first row."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import Final

from kb_client.files.formats.tables.header import (
    BoldRow,
    CellTexts,
    Merged,
    TableHeader,
    find_header,
    join_names,
    names_fit,
)
from kb_client.files.formats.tables.value_kinds import MEASURED, CellKind, kind_of
from kb_client.files.formats.text.literal_lines import keep_literal

__all__ = ["BoldRow", "HeaderRow", "Merged", "rows_to_lines"]

_SAMPLE_ROWS: Final = 100
_MAX_LABEL_CHARACTERS: Final = 80


class HeaderRow(tuple[str, ...]):
    """A row that the file marks as names of columns."""

    __slots__ = ()


def rows_to_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return a line for each row that is not empty.

    Below a header, a line is `Name: Ada; Born: 1815`. A header is a `HeaderRow`, or a row that differs in kind from
    those below it. Of two columns without a header, the first one has labels: `Born: 1815`. Other rows are
    `Ada | 1815`. An empty row may end a table.

    Args:
        rows: cells of each row, at their columns; a merged cell is repeated, beside itself as `Merged`.
    """
    return map(keep_literal, _lines(rows))


@dataclass(slots=True)
class _RowBlock:
    """Rows up to an empty one, or to the next header. Only the first ones are in memory."""

    marked: list[CellTexts]
    sample: list[CellTexts]
    rest: Iterator[CellTexts]


@dataclass(slots=True)
class _RowSource:
    """Rows with one that was read too far."""

    rows: Iterator[Sequence[str]]
    ahead: list[Sequence[str]] = field(default_factory=list)

    def blocks(self) -> Iterator[_RowBlock]:
        while (first := self._next_filled()) is not None:
            self.ahead.append(first)
            marked = list(self._run(headers=True))
            body = self._run(headers=False)
            yield _RowBlock(marked, list(islice(body, _SAMPLE_ROWS)), body)
            # What the reader left of the block.
            for _ in body:
                pass

    def _next(self) -> Sequence[str] | None:
        return self.ahead.pop() if self.ahead else next(self.rows, None)

    def _next_filled(self) -> Sequence[str] | None:
        while (row := self._next()) is not None and not any(map(str.strip, row)):
            pass
        return row

    def _run(self, *, headers: bool) -> Iterator[CellTexts]:
        while (row := self._next()) is not None:
            cleaned = _clean(row)
            if isinstance(row, HeaderRow) is not headers or not any(cleaned):
                self.ahead.append(row)
                return
            yield cleaned


@dataclass(frozen=True, slots=True)
class _Area:
    """Columns of a table. Tables that stand side by side have an empty column between them."""

    first: int = 0
    after: int = sys.maxsize

    def cut(self, row: CellTexts) -> CellTexts:
        cut = row[self.first : self.after]
        return BoldRow(cut) if isinstance(row, BoldRow) else cut


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    before: TableHeader | None = None
    for block in _RowSource(iter(rows)).blocks():
        body = chain(block.sample, block.rest)
        if block.marked:
            before = TableHeader(join_names(block.marked))
            writers = [_RowWriter(_Area(), before, labels=False)]
            yield from _write_all(body, writers) if block.sample else map(_plain, block.marked)
            continue
        areas = _areas(block.sample)
        headers = [find_header([area.cut(row) for row in block.sample]) for area in areas]
        if len(areas) > 1 and not all(headers):
            areas, headers = [_Area()], [find_header(block.sample)]
        continues = False
        if len(areas) == 1:
            continues = headers == [None] and before is not None and names_fit(before, block.sample)
            if continues and before:
                headers = [replace(before, first=0, after=0)]
            before = headers[0]
        writers = [
            _RowWriter(
                area,
                header,
                labels=header is None and _has_labels([area.cut(row) for row in block.sample]),
                continues=continues,
            )
            for area, header in zip(areas, headers, strict=True)
        ]
        yield from _write_all(body, writers)


def _write_all(rows: Iterable[CellTexts], writers: "Sequence[_RowWriter]") -> Iterator[str]:
    for at, row in enumerate(rows):
        for writer in writers:
            yield from writer.write(at, row)
    for writer in writers:
        yield from writer.write_unused_names()


@dataclass(frozen=True, slots=True)
class _RowWriter:
    """Writes the rows of one table."""

    area: _Area
    header: TableHeader | None
    labels: bool
    continues: bool = False
    """True if the header is that of a table above, which has written its names."""
    used: set[int] = field(default_factory=set)
    """Columns in which a row has a value."""

    def write(self, at: int, whole: CellTexts) -> Iterator[str]:
        row = self.area.cut(whole)
        if not any(row):
            return
        if self.labels:
            yield _label_and_value(row)
        elif self.header is None or at < self.header.first:
            yield _plain(row)
        elif at >= self.header.after and row != self.header.names:
            self.used.update(at for at, cell in enumerate(row) if cell)
            yield _write(self.header.names, row)

    def write_unused_names(self) -> Iterator[str]:
        """Yield the names of columns without values, which no row has told."""
        names = () if self.header is None or self.continues else self.header.names
        unused = [name for at, name in enumerate(names) if name and at not in self.used]
        if unused:
            yield " | ".join(unused)


def _areas(rows: Sequence[CellTexts]) -> list[_Area]:
    """Return the tables beside each other, each of which has at least two columns."""
    filled = sorted({at for row in rows for at, cell in enumerate(row) if cell})
    ends = [at for at, (left, right) in enumerate(pairwise(filled), 1) if right > left + 1]
    groups = [filled[start:end] for start, end in pairwise([0, *ends, len(filled)])]
    if len(groups) == 1 or any(len(group) == 1 for group in groups):
        return [_Area()]
    firsts = [0, *(group[0] for group in groups[1:])]
    # Each column belongs to one of them: a row further down may have more.
    return [_Area(first, after) for first, after in pairwise([*firsts, sys.maxsize])]


def _has_labels(rows: Sequence[CellTexts]) -> bool:
    """Return whether rows are labels with their values: two columns, and the first one has different texts."""
    cells = [_unmerged(row) for row in rows]
    pairs = [row for row in cells if len(row) == len(("label", "value"))]
    labels = {label for label, _ in pairs}
    return (
        all(len(row) <= len(("label", "value")) for row in cells)
        and 2 * len(pairs) > len(cells)
        and len(labels) == len(pairs)
        and all(
            len(label) <= _MAX_LABEL_CHARACTERS and kind_of(label) not in MEASURED | {CellKind.EMPTY}
            for label in labels
        )
    )


def _label_and_value(row: CellTexts) -> str:
    match _unmerged(row):
        case [label, value]:
            return f"{label.rstrip(' :')}: {value}"
    return _plain(row)


def _write(names: CellTexts, row: CellTexts) -> str:
    if row and all(isinstance(cell, Merged) for cell in row[1:]) and len(row) > 1:
        # A heading over all columns.
        return row[0]
    padded = [*names, *[""] * (len(row) - len(names))]
    pairs = zip(padded, row, strict=False)
    return "; ".join(f"{name}: {value}" if name else value for name, value in pairs if value)


def _plain(row: CellTexts) -> str:
    return " | ".join(_unmerged(row))


def _unmerged(row: CellTexts) -> list[str]:
    return [cell for cell in row if cell and not isinstance(cell, Merged)]


def _clean(row: Sequence[str]) -> CellTexts:
    cells = (type(cell)(" ".join(cell.split())) for cell in row)
    return BoldRow(cells) if isinstance(row, BoldRow) else tuple(cells)
