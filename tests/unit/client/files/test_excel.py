"""Workbooks are read as who opens them sees them, and what is left out is said."""

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.styles import Font
from openpyxl.worksheet.table import Table

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.office.excel import extract
from kb_client.files.limits import ParseLimits

OPTIONS = ExtractOptions(ParseLimits())


def workbook_of(*rows: list[Any]) -> openpyxl.Workbook:
    workbook = openpyxl.Workbook()
    workbook.active.title = "Depot"
    for row in rows:
        workbook.active.append(row)
    return workbook


def read(workbook: openpyxl.Workbook, change: Callable[[str, bytes], bytes] = lambda _, part: part) -> Extraction:
    """Save a workbook, change the parts in its archive, and read it."""
    saved, changed = io.BytesIO(), io.BytesIO()
    workbook.save(saved)
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(changed, "w") as copy:
        for name in archive.namelist():
            copy.writestr(name, change(name, archive.read(name)))
    return extract(changed.getvalue(), OPTIONS)


def lines_of(extraction: Extraction) -> list[str]:
    return [line for line in extraction.text.splitlines() if line]


def test_cells_are_shown_in_their_formats() -> None:
    workbook = workbook_of(
        ["Fact", "Value", "Remark"], ["Rebate", 0.0325, "x"], ["Part", 815, "y"], ["Longest trip", 2.25]
    )
    for cell, code in (("B2", "0.00%"), ("B3", "000000"), ("B4", "[h]:mm")):
        workbook.active[cell].number_format = code
    assert lines_of(read(workbook))[1:] == [
        "Fact: Rebate; Value: 3.25%; Remark: x",
        "Fact: Part; Value: 000815; Remark: y",
        "Fact: Longest trip; Value: 54:00",
    ]


def test_formulas_without_a_result_are_counted_with_a_remedy() -> None:
    extraction = read(
        workbook_of(["Ware", "Sum", "Year"], ["Saw", "=1+1", 2020], ["Drill", "=2+2", 2021], ["Vice", 7, 2022])
    )
    assert extraction.warnings == ("2 formulas have no result; open and save the file once in Excel",)
    assert "=1+1" not in extraction.text


def test_a_zero_is_no_result_if_excel_is_to_compute_all_formulas() -> None:
    def with_zeros(_name: str, part: bytes) -> bytes:
        # XlsxWriter writes a zero for each result that it does not know.
        return re.sub(rb"<v\s*/>|<v></v>", b"<v>0</v>", part)

    def computed(name: str, part: bytes) -> bytes:
        return with_zeros(name, part).replace(b' fullCalcOnLoad="1"', b"")

    workbook = workbook_of(["Bus", "Seats"], ["Red", 40], ["Full", 0], ["Sum", "=B2+B3"])
    later, at_once = read(workbook, with_zeros), read(workbook, computed)
    assert lines_of(later)[3:] == ["Full: 0", "Sum"]
    assert later.warnings == ("1 formula has no result; open and save the file once in Excel",)
    assert lines_of(at_once)[3:] == ["Full: 0", "Sum: 0"]
    assert at_once.warnings == ()


def test_a_formula_with_a_result_shows_it_and_is_not_counted() -> None:
    workbook = workbook_of(["Ware", "Sum"], ["Saw", "=1+1"], ["Drill", '=""'])

    def with_results(name: str, part: bytes) -> bytes:
        if not name.endswith("sheet1.xml"):
            return part
        part = re.sub(rb"(<f>1\+1</f>)<v ?/?>(</v>)?", rb"\1<v>2</v>", part)
        return re.sub(rb'r="B3"([^>]*>)', rb'r="B3" t="str"\1', part)

    extraction = read(workbook, with_results)
    assert "Ware: Saw; Sum: 2" in extraction.text
    assert extraction.warnings == ()


def test_hidden_rows_columns_and_sheets_are_left_out_and_said() -> None:
    workbook = workbook_of(["Ware", "Cost", "Price"], ["Saw", 31, 50], ["Old saw", 30, 40], ["Drill", 21, 30])
    workbook.active.row_dimensions[3].hidden = True
    workbook.active.column_dimensions["B"].hidden = True
    workbook.create_sheet("Margins").append(["secret"])
    workbook["Margins"].sheet_state = "hidden"
    extraction = read(workbook)
    assert lines_of(extraction) == ["## Depot", "Ware: Saw; Price: 50", "Ware: Drill; Price: 30"]
    [warning] = extraction.warnings
    assert warning.startswith("1 hidden sheet and 1 hidden row and 1 hidden column were left out; ")


def test_merged_labels_are_repeated_and_titles_are_not() -> None:
    workbook = workbook_of(
        ["Rental of the depot", None, None],
        ["Tools", "Saw", 50],
        [None, "Drill", 30],
        ["Lifts", "Small", 90],
    )
    workbook.active.merge_cells("A1:C1")
    workbook.active.merge_cells("A2:A3")
    assert lines_of(read(workbook))[1:] == [
        "Rental of the depot",
        "Tools | Saw | 50",
        "Tools | Drill | 30",
        "Lifts | Small | 90",
    ]


def test_names_of_groups_stand_before_those_of_their_columns() -> None:
    workbook = workbook_of(
        ["Mill", 2021, None, 2022, None],
        [None, "Plan", "Done", "Plan", "Done"],
        ["East", 5, 4, 6, 7],
        ["West", 3, 3, 2, 1],
    )
    for cells in ("A1:A2", "B1:C1", "D1:E1"):
        workbook.active.merge_cells(cells)
    assert lines_of(read(workbook))[-1] == "Mill: West; 2021 Plan: 3; 2021 Done: 3; 2022 Plan: 2; 2022 Done: 1"


@pytest.mark.parametrize("mark", ["table", "filter", "frozen", "bold"])
def test_a_row_that_excel_marks_as_names_is_a_header(mark: str) -> None:
    workbook = workbook_of(["Crew", "Boat"], ["Ida", "Nora"], ["Ole", "Freja"])
    sheet = workbook.active
    match mark:
        case "table":
            sheet.add_table(Table(displayName="Crews", ref="A1:B3"))
        case "filter":
            sheet.auto_filter.ref = "A1:B3"
        case "frozen":
            sheet.freeze_panes = "A2"
        case "bold":
            for cell in sheet[1]:
                cell.font = Font(bold=True)
    assert lines_of(read(workbook))[1:] == ["Crew: Ida; Boat: Nora", "Crew: Ole; Boat: Freja"]


def test_raised_lowered_and_struck_characters_have_marks() -> None:
    raised, lowered = InlineFont(vertAlign="superscript"), InlineFont(vertAlign="subscript")
    workbook = workbook_of(["Fact", "Value"])
    workbook.active["A2"] = CellRichText("CO", TextBlock(lowered, "2"), " in the air")
    workbook.active["B2"] = CellRichText("4.2 · 10", TextBlock(raised, "-4"))
    workbook.active["A3"], workbook.active["B3"] = "Fee", CellRichText(TextBlock(InlineFont(strike=True), "90"), " 80")
    workbook.active["A4"], workbook.active["B4"] = "Deposit", "old"
    workbook.active["B4"].font = Font(strike=True)
    text = read(workbook).text
    assert "CO₂ in the air" in text
    assert "4.2 · 10^-4" in text
    assert "~~90~~ 80" in text
    assert "~~old~~" in text


def test_notes_text_boxes_and_titles_of_charts_are_read() -> None:
    workbook = workbook_of(["Ware", "Price"], ["Saw", 50], ["Drill", 30])
    workbook.active["B2"].comment = Comment("with the case", "Ida")
    chart = BarChart()
    chart.title = "Prices of the tools"
    chart.add_data(Reference(workbook.active, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    workbook.active.add_chart(chart, "D2")
    text = read(workbook).text
    assert "50 (note: with the case)" in text
    assert text.endswith("Prices of the tools")


def test_tables_of_a_sheet_keep_their_own_names() -> None:
    workbook = workbook_of(
        ["Tool", "Deposit", "Day"],
        ["Saw", 50, 9.5],
        ["Drill", 30, 6],
        [],
        ["Depot", "Phone", "Beds"],
        ["Nord", 2210, 4],
    )
    workbook.active.append(["Sud", 2211, 6])
    assert lines_of(read(workbook))[-1] == "Depot: Sud; Phone: 2211; Beds: 6"


def test_line_ends_that_excel_escapes_are_no_text() -> None:
    workbook = workbook_of(["Rule", "Text of the rule"], ["One", "first_x000D_\nsecond"], ["Two", "third"])
    assert "first second" in read(workbook).text


def test_a_sheet_whose_marks_are_damaged_is_read_all_the_same() -> None:
    def cut(name: str, part: bytes) -> bytes:
        return part[: part.index(b"<mergeCells")] if name.endswith("drawing1.xml") else part

    workbook = workbook_of(["Ware", "Price"], ["Saw", 50])
    assert "Saw" in read(workbook, cut).text
    broken = read(workbook, lambda name, part: b"<no" if name.endswith(".rels") and "worksheets" in name else part)
    assert "Saw" in broken.text
