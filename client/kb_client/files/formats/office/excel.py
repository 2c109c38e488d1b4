"""Reads Excel files: what is visible of the visible sheets, with a line for each row."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from openpyxl import load_workbook
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.utils.cell import get_column_letter
from openpyxl.utils.escape import unescape
from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, counted
from kb_client.files.formats.office.archive import open_archive
from kb_client.files.formats.office.number_formats import show_value
from kb_client.files.formats.office.sheet_marks import CellRange, SheetMarks, read_chart_sheets, read_marks
from kb_client.files.formats.tables.rows import BoldRow, HeaderRow, Merged, rows_to_lines
from kb_client.files.formats.text.superscripts import plain_fractions, struck, subscript, superscript
from kb_client.files.titles import own_title

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

_MAX_REPEATED_COLUMNS: Final = 200
_MAX_REPEATED_CHARACTERS: Final = 200
"""Length of a merged text that is repeated in each row. A longer one is no label."""
_BUILTIN_FORMATS: Final = 164
_COMPUTED_LATER: Final = re.compile(rb"""<(?:\w+:)?calcPr\s[^>]*\bfullCalcOnLoad\s*=\s*["'](?:1|true)["']""")


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return what the cells of all visible sheets show; of a formula, the value that was last computed."""
    workbook = load_workbook(
        open_archive(data, options), read_only=True, data_only=True, keep_links=False, rich_text=True
    )
    visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    left_out = _SheetsLeftOut(hidden_sheets=len(workbook.worksheets) - len(visible))
    cells, styles = _CellCount(options.limits.cells), _CellStyles(workbook)
    later = _is_computed_later(workbook)
    texts = [_Sheet(sheet, styles, cells=cells, left_out=left_out, computed_later=later).text() for sheet in visible]
    charts = zip(workbook.chartsheets, read_chart_sheets(workbook._archive), strict=False)  # noqa: SLF001  # public nowhere
    texts += ["\n\n".join([f"## {sheet.title}", *shapes]) for sheet, shapes in charts if sheet.sheet_state == "visible"]
    properties = workbook.properties
    modified = properties.modified
    return Extraction(
        "\n\n".join(filter(None, texts)),
        title=own_title(properties.title),
        date=modified.replace(tzinfo=modified.tzinfo or UTC) if isinstance(modified, datetime) else None,
        warnings=left_out.warnings(),
    )


def _is_computed_later(workbook: "Workbook") -> bool:
    """Return whether Excel computes all formulas when it opens the file. openpyxl takes a lack of the mark for it."""
    with suppress(KeyError):
        return _COMPUTED_LATER.search(workbook._archive.read("xl/workbook.xml")) is not None  # noqa: SLF001  # public nowhere
    return False


@dataclass(slots=True)
class _SheetsLeftOut:
    """Counts what is in a file and not in its text."""

    hidden_sheets: int = 0
    hidden_rows: int = 0
    hidden_columns: int = 0
    without_result: int = 0

    def warnings(self) -> tuple[str, ...]:
        hidden = [
            counted(self.hidden_sheets, "hidden sheet"),
            counted(self.hidden_rows, "hidden row"),
            counted(self.hidden_columns, "hidden column"),
        ]
        parts = [part for part in hidden if part]
        warnings = []
        if parts:
            verb = "was" if sum((self.hidden_sheets, self.hidden_rows, self.hidden_columns)) == 1 else "were"
            warnings.append(f"{' and '.join(parts)} {verb} left out; unhide what should be found, and save")
        if self.without_result:
            verb = "has" if self.without_result == 1 else "have"
            warnings.append(
                f"{counted(self.without_result, 'formula')} {verb} no result; open and save the file once in Excel"
            )
        return tuple(warnings)


class _CellCount:
    """Counts the cells of all sheets. A few bytes in a file can stand for a million cells."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def count(self, width: int) -> None:
        """Count a row. Raises UnreadableDocument if there are too many cells."""
        # A row without cells takes time as well.
        self._left -= width + 1
        if self._left < 0:
            raise UnreadableDocument(f"it has more than {self._most:,} cells, also empty ones", "split it")


@dataclass(frozen=True, slots=True)
class _Style:
    code: str
    """Format of numbers."""
    bold: bool
    struck: bool
    position: str
    """`superscript`, `subscript`, or empty."""


class _CellStyles:
    """Styles of the cells of a workbook, by their number."""

    def __init__(self, workbook: "Workbook") -> None:
        self._workbook = workbook
        self._known: dict[int, _Style] = {}

    def get(self, style_id: int) -> _Style:
        if style_id not in self._known:
            self._known[style_id] = self._read(style_id)
        return self._known[style_id]

    def _read(self, style_id: int) -> _Style:
        from openpyxl.styles.numbers import BUILTIN_FORMATS

        try:
            style = self._workbook._cell_styles[style_id]  # noqa: SLF001  # public for cells only
            font = self._workbook._fonts[style.fontId]  # noqa: SLF001  # as above
            custom = style.numFmtId - _BUILTIN_FORMATS
            code = (
                BUILTIN_FORMATS.get(style.numFmtId, "General") if custom < 0 else self._workbook._number_formats[custom]  # noqa: SLF001  # as above
            )
        except IndexError:
            return _Style("General", bold=False, struck=False, position="")
        return _Style(code, bold=bool(font.b), struck=bool(font.strike), position=font.vertAlign or "")


class _Parser(WorkSheetParser):  # type: ignore[misc]  # openpyxl is not typed
    """Parser of openpyxl that also counts the formulas without a result."""

    without_result = 0
    computed_later = False
    """True if the program that wrote the file leaves all results to Excel, and may have written 0 for each."""

    def parse_cell(self, element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = super().parse_cell(element)
        value = cell["value"]
        is_missing = value is None or (self.computed_later and value == 0 and value is not False)
        if is_missing and cell["data_type"] != "str" and element.find(FORMULA_TAG) is not None:
            self.without_result += 1
            cell["value"] = None
        return cell


@dataclass(slots=True)
class _Sheet:
    sheet: "ReadOnlyWorksheet"
    styles: _CellStyles
    cells: _CellCount
    left_out: _SheetsLeftOut
    computed_later: bool
    merged: dict[tuple[int, int], tuple[str, CellRange]] = field(default_factory=dict)
    """Texts of the merged cells that reach the present row, by their first cells."""

    def text(self) -> str:
        workbook = self.sheet.parent
        path = self.sheet._worksheet_path  # noqa: SLF001  # public nowhere
        marks = read_marks(workbook._archive, path)  # noqa: SLF001  # public nowhere
        with self.sheet._get_source() as source:  # noqa: SLF001  # public nowhere
            parser = _Parser(
                source,
                self.sheet._shared_strings,  # noqa: SLF001  # public nowhere
                data_only=True,
                epoch=workbook.epoch,
                date_formats=workbook._date_formats,  # noqa: SLF001  # public nowhere
                timedelta_formats=workbook._timedelta_formats,  # noqa: SLF001  # public nowhere
                rich_text=True,
            )
            parser.computed_later = self.computed_later
            lines = list(rows_to_lines(self._rows(parser, marks)))
        self.left_out.without_result += parser.without_result
        shapes = "\n\n".join(marks.shapes)
        text = "\n\n".join(filter(None, ("\n".join(lines), shapes)))
        return f"## {self.sheet.title}\n\n{text}" if text else ""

    def _rows(self, parser: _Parser, marks: SheetMarks) -> Iterator[Sequence[str]]:
        hidden_columns: set[int] = set()
        before = 0
        for number, found in parser.parse():
            if number > before + 1:
                yield ()
            before = number
            attributes = parser.row_dimensions.pop(str(number), {})
            filled = [cell for cell in found if cell["value"] not in (None, "")]
            width = max((cell["column"] for cell in found), default=0)
            if attributes.get("hidden") in ("1", "true"):
                self.cells.count(width)
                self.left_out.hidden_rows += bool(filled)
                continue
            hidden = {cell["column"] for cell in filled if cell["column"] in marks.hidden_columns}
            hidden_columns |= hidden
            texts = {cell["column"]: self._show(cell, marks) for cell in filled if cell["column"] not in hidden}
            row = self._fill_merged(number, texts, marks)
            self.cells.count(max(width, len(row)))
            bold = [self.styles.get(cell["style_id"]).bold and isinstance(cell["value"], str) for cell in filled]
            kind = HeaderRow if number in marks.header_rows else BoldRow if len(bold) > 1 and all(bold) else tuple
            yield kind(row)
        self.left_out.hidden_columns += len(hidden_columns)

    def _show(self, cell: dict[str, Any], marks: SheetMarks) -> str:
        style, value = self.styles.get(cell["style_id"]), cell["value"]
        if isinstance(value, CellRichText):
            text = _rich_text(value)
        else:
            text = show_value(unescape(value) if isinstance(value, str) else value, style.code)
            text = _in_font(text, style.position, is_struck=style.struck)
        if marks.notes and (note := marks.notes.get(f"{get_column_letter(cell['column'])}{cell['row']}")):
            text = f"{text} (note: {note})"
        return text

    def _fill_merged(self, number: int, texts: dict[int, str], marks: SheetMarks) -> list[str]:
        """Return a row with the texts of merged cells in each of their columns, and in each of their rows."""
        for cells in marks.merged.get(number, ()):
            if text := texts.get(cells.first_column):
                self.merged[number, cells.first_column] = text, cells
        if texts:
            for place, (text, cells) in list(self.merged.items()):
                if number > cells.last_row or (number > cells.first_row and len(text) > _MAX_REPEATED_CHARACTERS):
                    del self.merged[place]
                    continue
                last = min(cells.last_column, cells.first_column + _MAX_REPEATED_COLUMNS)
                for column in range(cells.first_column, last + 1):
                    if column not in marks.hidden_columns:
                        texts[column] = text if column == cells.first_column else Merged(text)
        shown = [column for column in range(1, max(texts, default=0) + 1) if column not in marks.hidden_columns]
        return [texts.get(column, "") for column in shown]


def _rich_text(value: CellRichText) -> str:
    text = ""
    for part in value:
        if isinstance(part, TextBlock):
            text += _in_font(
                unescape(part.text), part.font.vertAlign or "", is_struck=bool(part.font.strike), after=text
            )
        else:
            text += unescape(part)
    return plain_fractions(text)


def _in_font(text: str, position: str, *, is_struck: bool, after: str = "") -> str:
    if position == "superscript":
        text = superscript(text, after=after)
    elif position == "subscript":
        text = subscript(text)
    return struck(text) if is_struck else text
