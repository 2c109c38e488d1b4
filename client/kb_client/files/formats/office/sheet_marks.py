"""Reads what a sheet of Excel has around its cells: merged and hidden ones, headers, notes, texts of shapes."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

from kb_client.files.formats.office.drawings import (
    CHART,
    RELATION,
    alternative_text,
    chart_titles,
    is_hidden,
    shape_text,
)

if TYPE_CHECKING:
    from lxml.etree import _Element

_ROWS_BEGIN: Final = re.compile(rb"<(?:\w+:)?sheetData\s*(/?)>")
_ROWS_END: Final = re.compile(rb"</(?:\w+:)?sheetData\s*>")
_LONGEST_TAG: Final = 100
_READ_BYTES: Final = 1_000_000
_MOST_FROZEN_ROWS: Final = 10
_MOST_COLUMNS: Final = 16_384
_SPREADSHEET_DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_THREADED: Final = re.compile(r"\A\[.*?\].*?\n(?:Comment|Kommentar|Commentaire|Comentario):\s*", re.DOTALL)
_RANGE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?")


@dataclass(frozen=True, slots=True)
class CellRange:
    first_row: int
    first_column: int
    last_row: int
    last_column: int


@dataclass(slots=True)
class SheetMarks:
    merged: dict[int, list[CellRange]] = field(default_factory=dict)
    """Ranges of merged cells by their first row."""
    header_rows: set[int] = field(default_factory=set)
    """Rows that the file marks as names of columns: of tables, filters and frozen panes."""
    hidden_columns: set[int] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)
    """Notes and comments by the names of their cells."""
    shapes: list[str] = field(default_factory=list)
    """Texts of text boxes, titles of charts, alternative texts of pictures."""


def read_marks(archive: ZipFile, path: str) -> SheetMarks:
    """Read what is around the cells of the sheet at `path` in its archive. Damaged parts count as empty."""
    marks = SheetMarks()
    root = _parse(_without_rows(archive, path))
    for element in () if root is None else root.iter():
        _read_element(element, marks)
    related = _Related(archive, path)
    for table in related.parts("table"):
        if table.get("headerRowCount", "1") != "0":
            marks.header_rows.update(cells.first_row for cells in _ranges(table.get("ref")))
    for comments in related.parts("comments"):
        marks.notes.update(_notes(comments))
    for name in related.names("drawing"):
        marks.shapes += _shapes(archive, name)
    return marks


def read_chart_sheets(archive: ZipFile) -> list[list[str]]:
    """Return the texts of each sheet that is a chart alone."""
    return [read_marks(archive, path).shapes for path in _Related(archive, "xl/workbook.xml").names("chartsheet")]


def _read_element(element: "_Element", marks: SheetMarks) -> None:
    match str(element.tag).rpartition("}")[2]:
        case "mergeCell":
            for cells in _ranges(element.get("ref")):
                marks.merged.setdefault(cells.first_row, []).append(cells)
        case "col" if element.get("hidden") in ("1", "true") or element.get("width") == "0":
            last = min(_number(element.get("max")), _MOST_COLUMNS)
            marks.hidden_columns.update(range(_number(element.get("min")), last + 1))
        case "autoFilter":
            marks.header_rows.update(cells.first_row for cells in _ranges(element.get("ref")))
        case "pane" if element.get("state") in ("frozen", "frozenSplit"):
            frozen = _number(element.get("ySplit"))
            if 0 < frozen <= _MOST_FROZEN_ROWS:
                marks.header_rows.add(frozen)


def _without_rows(archive: ZipFile, path: str) -> bytes:
    """Return the XML of a sheet without its rows, which can be a million."""
    head, tail, within = b"", b"", False
    with archive.open(path) as part:
        while chunk := part.read(_READ_BYTES):
            tail += chunk
            if not head and (begin := _ROWS_BEGIN.search(tail)):
                head, tail = tail[: begin.start()], tail[begin.end() :]
                within = not begin[1]
            if within and (end := _ROWS_END.search(tail)):
                tail, within = tail[end.end() :], False
            elif within:
                tail = tail[-_LONGEST_TAG:]
    return head + tail


def _parse(xml: bytes) -> "_Element | None":
    from lxml import etree

    try:
        return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:
        return None


class _Related:
    """Other parts of the archive that a part refers to."""

    def __init__(self, archive: ZipFile, path: str) -> None:
        self._archive = archive
        folder, name = posixpath.split(path)
        self.by_id: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        relations = self._part(f"{folder}/_rels/{name}.rels")
        for relation in () if relations is None else relations:
            if relation.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
                self.by_id[relation.get("Id", "")] = target
                self._names.setdefault(relation.get("Type", "").rpartition("/")[2], []).append(target)

    def names(self, kind: str) -> list[str]:
        return self._names.get(kind, [])

    def parts(self, kind: str) -> "Iterator[_Element]":
        for name in self.names(kind):
            if (part := self._part(name)) is not None:
                yield part

    def part(self, relation_id: str) -> "_Element | None":
        return self._part(self.by_id.get(relation_id, ""))

    def _part(self, name: str) -> "_Element | None":
        try:
            return _parse(self._archive.read(name))
        except KeyError:
            return None


def _ranges(ref: str | None) -> Iterator[CellRange]:
    from openpyxl.utils import column_index_from_string

    for found in _RANGE.finditer(ref or ""):
        column, row, last_column, last_row = found.groups()
        yield CellRange(
            int(row),
            column_index_from_string(column),
            int(last_row or row),
            column_index_from_string(last_column or column),
        )


def _number(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except (ValueError, OverflowError):
        return 0


def _notes(comments: "_Element") -> Iterator[tuple[str, str]]:
    for comment in comments.iter("{*}comment"):
        text = "".join(comment.itertext("{*}t"))
        text = " ".join(_THREADED.sub("", text).split())
        if text:
            yield comment.get("ref", ""), text


def _shapes(archive: ZipFile, path: str) -> Iterator[str]:
    try:
        root = _parse(archive.read(path))
    except KeyError:
        return
    if root is None:
        return
    related = _Related(archive, path)
    for element in root.iter(
        f"{_SPREADSHEET_DRAWING}sp", f"{_SPREADSHEET_DRAWING}pic", f"{_SPREADSHEET_DRAWING}graphicFrame"
    ):
        properties = element.find(f".//{_SPREADSHEET_DRAWING}cNvPr")
        if is_hidden(properties):
            continue
        if text := alternative_text(properties):
            yield f"Picture: {text}"
        if text := shape_text(element):
            yield text
        for reference in element.iter(f"{CHART}chart"):
            chart = related.part(reference.get(f"{RELATION}id", ""))
            yield from () if chart is None else chart_titles(chart)
