"""Rows of tables can be understood alone, and no value is taken for the name of others."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import ExtractOptions
from kb_client.files.formats.delimited import extract
from kb_client.files.formats.tables.rows import BoldRow, HeaderRow, Merged, rows_to_lines
from kb_client.files.formats.tables.value_kinds import CellKind, kind_of
from kb_client.files.limits import ParseLimits

OPTIONS = ExtractOptions(ParseLimits())


def lines_of(table: str) -> list[str]:
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip("\n").splitlines()]
    return list(rows_to_lines(rows))


WITH_HEADER = {
    "numbers below names": ("Fruit|Kilograms|Boxes\nPears|12|3\nPlums|7|2", "Fruit: Plums; Kilograms: 7; Boxes: 2"),
    "years": ("Branch|2021|2022\nLyon|310|295\nGent|120|155", "Branch: Gent; 2021: 120; 2022: 155"),
    "sizes": ("Boot|40|41|42\nTrail|3|0|9\nCity|8|8|1", "Boot: Trail; 40: 3; 41: 0; 42: 9"),
    "days": (
        "Person|2026-05-04|2026-05-05\nIda|late|early\nOle|off|late",
        "Person: Ole; 2026-05-04: off; 2026-05-05: late",
    ),
    "names of days": ("Course|Mon|Tue\nYoga|18:00|19:30\nChess|17:00|20:00", "Course: Chess; Mon: 17:00; Tue: 20:00"),
    "days above a column without a name": ("|Mon|Tue\n08:00|Chess|Yoga\n09:00|Yoga|Choir", None),
    "percents": ("Ware|5 %|20 %\nMilk|1.05|1.20\nWine|2.10|2.40", "Ware: Wine; 5 %: 2.10; 20 %: 2.40"),
    "quarters": ("Plant|Q3|Q4\nAlpha|88|91\nBeta|70|64", "Plant: Beta; Q3: 70; Q4: 64"),
    "equal names": (
        "Gate|From|To|From|To\nA|07:00|11:30|12:30|16:00",
        "Gate: A; From: 07:00; To: 11:30; From: 12:30; To: 16:00",
    ),
    "a number among names": ("Ship|2020|Remark\nNora|14|docked\nFreja|9|sold", "Ship: Freja; 2020: 9; Remark: sold"),
    "a long name": (f"Tool|{'Fee per day with the insurance against loss and damage ' * 2}|Stock\nSaw|9.50|4", None),
    "names of programs": (
        "order_id|shipTo|state\nX-9|Porto|open\nX-10|Vigo|sent",
        "order_id: X-10; shipTo: Vigo; state: sent",
    ),
    "words that name columns": (
        "Name|Department|Phone\nIda|Garage|none\nOle|Kitchen|7",
        "Name: Ole; Department: Kitchen; Phone: 7",
    ),
    "sentences below a word": (
        "Alarm|Reaction|Lamp\nE1|"
        + "Stop the belt, lock the main switch and call the shift leader. " * 2
        + "|red\nE2|"
        + "Wait until the lamp is green, then acknowledge at the panel twice. " * 2
        + "|amber",
        None,
    ),
    "yes and no": ("Feature|Basic|Pro\nExport|no|yes\nAudit|no|yes", "Feature: Audit; Basic: no; Pro: yes"),
    "two rows of names": (
        "Mill|2021||2022|\n|Plan|Done|Plan|Done\nEast|5|4|6|7\nWest|3|3|2|1",
        "Mill: West; 2021 Plan: 3; 2021 Done: 3; 2022 Plan: 2; 2022 Done: 1",
    ),
    "values missing": (
        "Pump|Pressure|Flow\nP1|4.0|n/a\nP2|-|30\nP3|5.5|28\nP4|on request|31",
        "Pump: P4; Pressure: on request; Flow: 31",
    ),
    "two columns whose names are usual": ("Country|Rate\nChile|19", "Country: Chile; Rate: 19"),
    "many rows of two columns": (
        "Harbour|Ships\n" + "\n".join(f"H{n}|{n * 3}" for n in range(9)),
        "Harbour: H8; Ships: 24",
    ),
}


@pytest.mark.parametrize("name", WITH_HEADER)
def test_a_row_that_differs_from_those_below_names_the_columns(name: str) -> None:
    table, expected = WITH_HEADER[name]
    lines = lines_of(table)
    names = table.splitlines()[0].split("|")
    name = next(filter(None, names)).strip()
    assert all(f"{name}: " in line for line in lines), lines
    if expected is not None:
        assert expected in lines


WITHOUT_HEADER = {
    "people": "Ida Holm|Garage|line 31\nOle Rask|Kitchen|line 32\nUma Falk|Front desk|line 33",
    "one of them without a number": "Ida Holm|Garage|see Ole\nOle Rask|Kitchen|line 32\nUma Falk|Front desk|line 33",
    "lines of people": "Ida Holm|31|see Ole\nOle Rask|32|4410\nUma Falk|33|4411",
    "opening hours": "Monday|closed|closed\nTuesday|10:00|19:00\nFriday|10:00|21:00",
    "a data sheet of three columns": "Maker|Orbit|see plate\nMass|14 kg|empty\nDepth|52 cm|folded",
    "facts of several kinds": "Buyer|Kestrel Ltd|main\nOrder|88120|open\nDue|2026-07-01|fixed",
    "years of events": "Founded|1987|Turin\nSold|2004|Graz\nMoved|2011|Bern",
    "forms of four columns": "Buyer|Kestrel|Order|88120\nContact|Uma|Due|2026-07-01",
    "two products": "Voltage|230 V|110 V\nPower|2.2 kW|2.0 kW\nColour|grey|white",
    "numbers": "4|5\n6|7",
    "one row": "Ida Holm|Garage|line 31",
}


@pytest.mark.parametrize("name", WITHOUT_HEADER)
def test_no_value_of_the_first_row_names_others(name: str) -> None:
    table = WITHOUT_HEADER[name]
    assert lines_of(table) == [line.replace("|", " | ") for line in table.splitlines()]


LABELS = {
    "a data sheet": "Model|Orbit 4\nMass|14 kg\nDepth|52 cm\nWidth|61 cm",
    "a cover sheet": "Buyer|Kestrel Ltd\nOrder number|88120\nInvoice number|5417\nContact|Uma Falk",
    "a glossary": "RTO|time until a service runs again\nRPO|data that may be lost, as a time before the fault",
    "labels with colons": "Issued by:|Uma Falk\nIssued on:|2026-03-02",
    "one pair": "Signed by|Uma Falk",
}


@pytest.mark.parametrize("name", LABELS)
def test_each_label_keeps_its_value(name: str) -> None:
    assert lines_of(LABELS[name]) == [line.replace(":|", "|").replace("|", ": ") for line in LABELS[name].splitlines()]


def test_titles_and_remarks_above_a_table_are_no_names() -> None:
    table = "Rental prices||\nvalid from 1 May||\n||\nTool|Deposit|Day\nSaw|50.00|9.50\nDrill|30.00|6.00"
    assert lines_of(table) == [
        "Rental prices",
        "valid from 1 May",
        "Tool: Saw; Deposit: 50.00; Day: 9.50",
        "Tool: Drill; Deposit: 30.00; Day: 6.00",
    ]


def test_a_table_goes_on_after_an_empty_row_and_another_one_has_its_own_names() -> None:
    table = "Tool|Deposit|Day\nSaw|50.00|9.50\n||\nDrill|30.00|6.00\n||\nDepot|Phone|Beds\nNord|2210|4\nSud|2211|6"
    assert lines_of(table) == [
        "Tool: Saw; Deposit: 50.00; Day: 9.50",
        "Tool: Drill; Deposit: 30.00; Day: 6.00",
        "Depot: Nord; Phone: 2210; Beds: 4",
        "Depot: Sud; Phone: 2211; Beds: 6",
    ]


def test_a_table_of_texts_below_another_one_does_not_get_its_names() -> None:
    table = "Tool|Maker|Day\nSaw|Orbit|9.50\nDrill|Zeta|6.00\n||\nIda Holm|Garage|{}\nOle Rask|Kitchen|{}"
    assert lines_of(table.format("mornings", "evenings"))[2:] == [
        "Ida Holm | Garage | mornings",
        "Ole Rask | Kitchen | evenings",
    ]
    assert lines_of(table.format("", ""))[2:] == ["Ida Holm: Garage", "Ole Rask: Kitchen"]


def test_tables_side_by_side_are_two_tables() -> None:
    table = "Tool|Deposit|Day||Depot|Phone|Beds\nSaw|50.00|9.50||Nord|2210|4\nDrill|30.00|6.00||Sud|2211|6\n|||||2299|"
    assert lines_of(table) == [
        "Tool: Saw; Deposit: 50.00; Day: 9.50",
        "Depot: Nord; Phone: 2210; Beds: 4",
        "Tool: Drill; Deposit: 30.00; Day: 6.00",
        "Depot: Sud; Phone: 2211; Beds: 6",
        "Phone: 2299",
    ]


def test_marked_and_bold_rows_are_headers() -> None:
    rows = [["Ida", "Garage"], ["Ole", "Kitchen"]]
    expected = ["Who: Ida; Where: Garage", "Who: Ole; Where: Kitchen"]
    assert list(rows_to_lines([HeaderRow(["Who", "Where"]), *rows])) == expected
    assert list(rows_to_lines([BoldRow(["Who", "Where"]), *rows])) == expected
    # Emphasis further down names nothing.
    bold = BoldRow(["Ole", "Kitchen", "evenings"])
    assert (
        list(rows_to_lines([["Ida", "Garage", "mornings"], bold, ["Uma", "Desk", "nights"]]))[1]
        == "Ole | Kitchen | evenings"
    )


def test_merged_cells_are_named_in_each_column_and_written_once_without_names() -> None:
    names = [HeaderRow(["Mill", "2021", Merged("2021")]), HeaderRow(["Mill", "Plan", "Done"])]
    assert list(rows_to_lines([*names, ["East", "5", "4"]])) == ["Mill: East; 2021 Plan: 5; 2021 Done: 4"]
    hours = [HeaderRow(["Day", "Open", "Shut"]), ["Sunday", "closed", Merged("closed")]]
    assert list(rows_to_lines(hours)) == ["Day: Sunday; Open: closed; Shut: closed"]
    heading = ["Holidays", Merged("Holidays"), Merged("Holidays")]
    assert list(rows_to_lines([*hours, heading]))[-1] == "Holidays"
    assert list(rows_to_lines([heading])) == ["Holidays"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", CellKind.EMPTY),
        ("n/a", CellKind.EMPTY),
        ("1998", CellKind.YEAR),
        ("12,5 %", CellKind.PERCENT),
        ("€ 1,200.00", CellKind.MONEY),
        ("1.200,00 EUR", CellKind.MONEY),
        ("-3,5", CellKind.NUMBER),
        ("1 200 300", CellKind.NUMBER),
        ("2 1/4", CellKind.NUMBER),
        ("31.01.2026", CellKind.DATE),
        ("3 Feb 2026", CellKind.DATE),
        ("March 2026", CellKind.DATE),
        ("Tue", CellKind.DATE),
        ("7:05 pm", CellKind.TIME),
        ("36:00", CellKind.TIME),
        ("52 cm", CellKind.QUANTITY),
        ("24 V DC", CellKind.QUANTITY),
        ("X-10", CellKind.CODE),
        ("line 31", CellKind.NUMBERED),
        ("closed", CellKind.STATE),
        ("uma@example.org", CellKind.ADDRESS),
        ("Uma Falk", CellKind.TEXT),
        ("Marten", CellKind.TEXT),
    ],
)
def test_values_have_kinds(value: str, kind: CellKind) -> None:
    assert kind_of(value) is kind


CELLS = st.text(st.characters(codec="utf-8", exclude_characters=";:|#", exclude_categories=["C", "Z"]), max_size=8)


@given(st.lists(st.lists(CELLS, max_size=6), max_size=12))
def test_no_cell_of_any_table_is_lost(rows: list[list[str]]) -> None:
    text = "\n".join(rows_to_lines(rows))
    assert [cell for row in rows for cell in row if cell not in text] == []


def test_names_of_columns_without_values_stand_below_the_table() -> None:
    names = HeaderRow(["Shelf", "Checked by", "On"])
    assert list(rows_to_lines([names, ["A", "", ""], ["B", "", "May"]])) == [
        "Shelf: A",
        "Shelf: B; On: May",
        "Checked by",
    ]


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=9))
def test_values_stand_in_the_line_of_their_row(rows: list[list[str]]) -> None:
    lines = list(rows_to_lines(rows))
    apart = [row for row in rows if all(row) and not any(row[0] in line and row[1] in line for line in lines)]
    # The header, if one of its columns is empty.
    assert len(apart) <= 1


def of_csv(text: str) -> list[str]:
    return extract(text.encode(), OPTIONS).text.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "Stock of the depot\nas of May\n\nTool;Deposit;Day\nSaw;50,00;9,50\nDrill;30,00;6,00\n",
        "sep=;\nTool;Deposit;Day\nSaw;50,00;9,50\nDrill;30,00;6,00\n",
        "Tool;Deposit;Day\nSaw;50,00;9,50\nDrill;30,00;6,00;\n",
        'Tool\tDeposit\tDay\nSaw\t"50,00"\t9,50\nDrill\t30,00\t6,00\n',
        'Tool, Deposit, Day\n"Saw", "50,00", "9,50"\n"Drill", "30,00", "6,00"\n',
    ],
)
def test_the_delimiter_is_what_cuts_most_lines_alike(text: str) -> None:
    assert of_csv(text)[-1] == "Tool: Drill; Deposit: 30,00; Day: 6,00"


def test_commas_in_dates_and_prices_do_not_cut_rows_with_semicolons() -> None:
    rows = [f"April {day}, 2026;{day}00;12,50;open;" + ("x;" if day % 2 else "") for day in range(1, 9)]
    assert of_csv("\n".join(rows))[0].startswith("April 1, 2026 | 100 | 12,50 | open")


def test_with_two_delimiters_that_cut_alike_the_comma_is_the_decimal_one() -> None:
    assert of_csv("Saw;9,50\nDrill;6,00\n") == ["Saw: 9,50", "Drill: 6,00"]


@given(st.lists(st.lists(CELLS.filter(bool), min_size=3, max_size=3), min_size=2, max_size=6), st.sampled_from(";\t|,"))
def test_rows_that_a_program_wrote_are_cut_where_it_cut_them(rows: list[list[str]], delimiter: str) -> None:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    text = extract(file.getvalue().encode(), OPTIONS).text
    assert all(cell in text for row in rows for cell in row)
