"""Reads Excel files: the visible sheets, with a line for each row."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument
from kb_client.files.formats.archive import open_archive
from kb_client.files.formats.rows import rows_to_lines

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the values of all visible sheets; of a formula, the value that was last computed."""
    from openpyxl import load_workbook

    workbook = load_workbook(open_archive(data, options), read_only=True, data_only=True, keep_links=False)
    visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    cells = _CellCount(options.limits.cells)
    hidden = len(workbook.worksheets) - len(visible)
    properties = workbook.properties
    modified = properties.modified
    return Extraction(
        "\n\n".join(filter(None, (_sheet_text(sheet, cells) for sheet in visible))),
        title=(properties.title or "").strip() or None,
        date=modified.replace(tzinfo=modified.tzinfo or UTC) if isinstance(modified, datetime) else None,
        warnings=(f"{hidden} hidden sheets were left out",) if hidden else (),
    )


class _CellCount:
    """Counts the cells of all sheets. A few bytes in a file can stand for a million cells."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def count(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return the row. Raises UnreadableDocument if there are too many cells."""
        # A row without cells takes time as well.
        self._left -= len(row) + 1
        if self._left < 0:
            raise UnreadableDocument(f"it has more than {self._most:,} cells, also empty ones", "split it")
        return row


def _sheet_text(sheet: "ReadOnlyWorksheet", cells: _CellCount) -> str:
    # The extent that a file states for a sheet is often wrong.
    sheet.reset_dimensions()
    rows = ([_to_text(value) for value in cells.count(row)] for row in sheet.iter_rows(values_only=True))
    lines = "\n".join(rows_to_lines(rows))
    return f"## {sheet.title}\n\n{lines}" if lines else ""


def _to_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            # Excel computes in binary: 0.1 + 0.2 must not become 0.30000000000000004.
            return str(int(value)) if value.is_integer() else f"{value:.15g}"
        case datetime():
            return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return str(value)
