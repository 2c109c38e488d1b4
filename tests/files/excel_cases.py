"""Excel files, whose cells show something else than they hold."""

import datetime as dt
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.files.case import Case, Expected
from tests.unit.client.files.strict_files import to_strict

if TYPE_CHECKING:
    from openpyxl import Workbook

Change = Callable[[Any], object]
"""Change of the first sheet, or of the workbook."""


def _excel(
    name: str,
    rows: list[list[Any]],
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
    change: Change = lambda _: None,
    book: Change = lambda _: None,
) -> Case:
    from openpyxl import Workbook

    workbook = Workbook()
    sheet = workbook.active
    sheet.title = "Sheet"
    for row in rows:
        sheet.append(row)
    change(sheet)
    book(workbook)
    return Case(name, ".xlsx", _saved(workbook), shows, hides, warns, title)


def _add_chart_sheet(book: Any) -> None:
    from openpyxl.chart import BarChart, Reference

    chart = BarChart()
    chart.title = "Milk by herd"
    chart.add_data(Reference(book.active, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    book.create_chartsheet("Season").add_chart(chart)


def _strict_workbook() -> Case:
    """Return a file in the strict form, in which days and times are written in words."""
    from openpyxl import Workbook

    workbook = Workbook(iso_dates=True)
    for row in (["Train", "Day", "Leaves", "Full"], ["Owl", dt.date(2025, 3, 9), dt.time(6, 40), 0.875]):
        workbook.active.append(row)
    for cell, code in (("B2", "dd/mm/yyyy"), ("C2", "h:mm"), ("D2", "0.0%")):
        workbook.active[cell].number_format = code
    shows = ("Train: Owl", ("Day: 2025-03-09", "Day: 09/03/2025"), "Leaves: 6:40", "Full: 87.5%")
    return Case("a workbook in the strict form is read", ".xlsx", to_strict(_saved(workbook)), shows)


def _saved(workbook: "Workbook") -> bytes:
    data = io.BytesIO()
    workbook.save(data)
    return data.getvalue()


def _shown_as(name: str, value: object, code: str, *shown: str, hides: tuple[str, ...] = ()) -> Case:
    """Return a file with a value in a format of numbers."""

    def set_format(sheet: Any) -> None:
        sheet["B2"].number_format = code

    return _excel(name, [["Item", "Shown"], ["x", value]], "Shown", tuple(shown), hides=hides, change=set_format)


def _all(*changes: Change) -> Change:
    def change(target: Any) -> None:
        for each in changes:
            each(target)

    return change


def _set(place: str, attribute: str, value: object) -> Change:
    return lambda sheet: setattr(sheet[place], attribute, value)


def _hide_row(number: int) -> Change:
    return lambda sheet: setattr(sheet.row_dimensions[number], "hidden", True)


def _hide_column(letter: str) -> Change:
    return lambda sheet: setattr(sheet.column_dimensions[letter], "hidden", True)


def _merge(cells: str) -> Change:
    return lambda sheet: sheet.merge_cells(cells)


def _add_sheet(name: str, rows: list[list[Any]], state: str = "visible") -> Change:
    def add(workbook: Any) -> None:
        sheet = workbook.create_sheet(name)
        sheet.sheet_state = state
        for row in rows:
            sheet.append(row)

    return add


def _note(place: str, text: str) -> Change:
    def add(sheet: Any) -> None:
        from openpyxl.comments import Comment

        sheet[place].comment = Comment(text, "Ada")

    return add


def _chart(title: str) -> Change:
    def add(sheet: Any) -> None:
        from openpyxl.chart import BarChart, Reference

        chart = BarChart()
        chart.title = title
        chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
        sheet.add_chart(chart, "E2")

    return add


def _rich(sheet: Any) -> None:
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    sheet["B2"] = CellRichText("2 × 10", TextBlock(InlineFont(vertAlign="superscript"), "5"), " Pa")


def _bold(*places: str) -> Change:
    def change(sheet: Any) -> None:
        from openpyxl.styles import Font

        for place in places:
            sheet[place].font = Font(bold=True)

    return change


def _struck(place: str) -> Change:
    def change(sheet: Any) -> None:
        from openpyxl.styles import Font

        sheet[place].font = Font(strike=True)

    return change


def _table(cells: str) -> Change:
    def add(sheet: Any) -> None:
        from openpyxl.worksheet.table import Table

        sheet.add_table(Table(displayName="T1", ref=cells))

    return add


FORMATS: Final = [
    _shown_as("a share is shown in percent", 0.125, "0.0%", "12.5%", "12.5 %", hides=("0.125",)),
    _shown_as("leading zeros are shown", 815, "000000", "000815"),
    _shown_as("a currency is shown", 1990.5, '#,##0.00 "EUR"', "1,990.50 EUR"),
    _shown_as("euros before a number are shown", 12, "[$€-407] #,##0.00", "€ 12.00", "€12.00"),
    _shown_as("dollars are shown", 3400, '"$"#,##0', "$3,400"),
    _shown_as("a unit is shown", 230, '0" V"', "230 V"),
    _shown_as("a long duration is shown", dt.timedelta(hours=41, minutes=5), "[h]:mm", "41:05"),
    _shown_as("a date is shown", dt.date(2025, 2, 9), "yyyy-mm-dd", "2025-02-09"),
    _shown_as("a day and month are shown", dt.date(2025, 2, 9), "d mmm", "9 Feb", hides=("2025",)),
    _shown_as("a time is shown", dt.time(7, 5), "hh:mm", "07:05", "7:05"),
    _shown_as("thousands are shown", 4_500_000, '#,##0.0,,"M"', "4.5M"),
    _shown_as("rounded numbers are shown rounded", 3.14159, "0.00", "3.14", hides=("3.14159",)),
    _shown_as("losses stand in brackets", -250, "#,##0;(#,##0)", "(250)"),
    _shown_as("a fraction is shown", 0.75, "# ?/?", "3/4"),
    _shown_as("a power of ten is shown", 125000, "0.00E+00", "1.25E+05"),
    _shown_as("a phone number is shown", 5551234, "000-0000", "555-1234"),
    _excel(
        "a hidden format shows nothing",
        [["Item", "Key"], ["x", 4477]],
        "Item",
        hides=("4477",),
        change=_set("B2", "number_format", ";;;"),
    ),
    _shown_as("a text stays a text", "00120", "@", "00120"),
    _shown_as("yes and no are shown", True, "General", "TRUE"),
    _shown_as("a whole number has no point", 7.0, "General", "7", hides=("7.0",)),
]

SHEETS: Final = [
    _excel(
        "names stand above numbers",
        [["Crop", "Acres", "Tons"], ["Oats", 12, 31], ["Rye", 30, 64]],
        "Crop: Oats",
        "Acres: 12",
        "Acres: 30",
        "Tons: 64",
    ),
    _excel(
        "labels stand beside values",
        [["Farm", "Hill End"], ["Owner", "J. Moss"], ["Phone", "0171 22"]],
        "Farm: Hill End",
        "Owner: J. Moss",
        hides=("Farm: Owner", "Hill End: J. Moss"),
    ),
    _excel(
        "people have no names of columns",
        [["Hugo Berg", "Mill", "Gate 1"], ["Ida Stern", "Barn", "Gate 2"], ["Ole Fink", "Shop", "Gate 3"]],
        "Hugo Berg",
        "Ida Stern",
        hides=("Hugo Berg:", "Mill: Barn"),
    ),
    _excel(
        "years are names",
        [["Milk", 2022, 2023], ["Cow", 810, 790], ["Goat", 120, 133]],
        "2022: 810",
        "2023: 790",
        "2023: 133",
    ),
    _excel(
        "a table names its columns",
        [["Field", "Soil"], ["North", "clay"], ["South", "sand"]],
        "Field: North",
        "Soil: clay",
        change=_table("A1:B3"),
    ),
    _excel(
        "bold cells name columns",
        [["Tool", "Place", "Owner"], ["Rake", "shed", "Ann"], ["Hoe", "barn", "Ben"]],
        "Tool: Rake",
        "Place: shed",
        "Owner: Ben",
        change=_bold("A1", "B1", "C1"),
    ),
    _excel(
        "a title stands above the names",
        [["Harvest 2025"], [], ["Crop", "Tons", "Acres"], ["Oats", 31, 12], ["Rye", 22, 9]],
        "Harvest 2025",
        "Crop: Oats",
        "Tons: 22",
    ),
    _excel(
        "two tables have names each",
        [["Ewe", "Age"], ["Dot", 3], ["Fay", 4], [], ["Hen", "Eggs", "Pen"], ["Bo", 210, 4], ["Jo", 188, 5]],
        "Ewe: Dot",
        "Age: 4",
        "Hen: Bo",
        "Eggs: 188",
        hides=("Ewe: Bo",),
    ),
    _excel(
        "a label over rows belongs to each",
        [["Barn", "Box", "Animal"], ["East", 1, "Mule"], [None, 2, "Pony"]],
        "Barn: East",
        "Mule",
        "Barn: East",
        "Pony",
        change=_merge("A2:A3"),
    ),
    _excel(
        "a label over columns belongs to each",
        [
            ["Feed", "Spring", None, "Autumn", None],
            [None, "kg", "EUR", "kg", "EUR"],
            ["Hay", 90, 40, 120, 61],
            ["Oats", 30, 25, 44, 39],
        ],
        "Feed: Hay",
        "Spring",
        "kg: 90",
        "Autumn",
        "kg: 120",
        change=_all(_merge("B1:C1"), _merge("D1:E1")),
    ),
    _excel(
        "hidden rows are left out and said",
        [["Cow", "Milk"], ["Alma", 20], ["Bela", 23]],
        "Alma",
        hides=("Bela",),
        warns="1 hidden row",
        change=_hide_row(3),
    ),
    _excel(
        "hidden columns are left out and said",
        [["Cow", "Milk", "Price"], ["Alma", 20, 977], ["Bela", 23, 988]],
        "Milk",
        "Alma",
        "20",
        hides=("977", "Price"),
        warns="1 hidden column",
        change=_hide_column("C"),
    ),
    _excel(
        "hidden sheets are left out and said",
        [["Cow", "Milk"], ["Alma", 20]],
        "Alma",
        hides=("Wages",),
        warns="1 hidden sheet",
        book=_add_sheet("Wages", [["Wages", 9]], "hidden"),
    ),
    _excel(
        "all sheets are shown",
        [["Cow", "Milk"], ["Alma", 20]],
        "Alma",
        "Sheep",
        "Dolly",
        book=_add_sheet("Sheep", [["Name", "Wool"], ["Dolly", 4]]),
    ),
    _excel(
        "formulas without a result are counted",
        [["Sum", "=1+2"], ["Mean", "=3/2"]],
        "Sum",
        hides=("=1+2",),
        warns="2 formulas have no result",
    ),
    _excel(
        "notes are shown", [["Cow", "Milk"], ["Alma", 20]], "Alma", "ask the vet", change=_note("B2", "ask the vet")
    ),
    _excel(
        "raised digits are not digits",
        [["Item", "Load"], ["Silo", ""]],
        "Load",
        ("2 × 10^5 Pa", "2 × 10⁵ Pa"),
        change=_rich,
    ),
    _excel("struck values are marked", [["Item", "Price"], ["Hay", "old 40"]], "~~old 40~~", change=_struck("B2")),
    _excel(
        "charts show their title",
        [["Crop", "Tons"], ["Oats", 31], ["Rye", 22]],
        "Oats",
        "Harvest by crop",
        change=_chart("Harvest by crop"),
    ),
    _excel(
        "lines in a cell stay in it",
        [["Cow", "Note"], ["Alma", "lame\nleft"], ["Bela", "fine"]],
        "Cow",
        "Alma",
        "lame left",
        "Bela",
    ),
    _excel(
        "columns without values have their names",
        [["Gate", "Key no", "Returned on"], ["East", 4, None], ["West", 7, None]],
        "Gate: East",
        "Key no: 7",
        "Returned on",
    ),
    _excel(
        "numbers of SAP have their minus at the end",
        [["Account", "Balance"], ["Grain", "1.310,40"], ["Hay", "275,00-"]],
        "Account: Grain",
        "Balance: 275,00-",
    ),
    _excel(
        "a chart on a sheet of its own is named",
        [["Herd", "Milk"], ["Alm", 310], ["Tal", 455]],
        "Tal",
        "455",
        "Milk by herd",
        book=_add_chart_sheet,
    ),
    _strict_workbook(),
    _excel("an empty file is refused", [], warns="no text"),
    _excel(
        "its title names it",
        [["Cow", "Milk"], ["Alma", 20]],
        "Alma",
        title="Herd of May",
        book=lambda book: setattr(book.properties, "title", "Herd of May"),
    ),
]

CASES: Final = [*FORMATS, *SHEETS]
