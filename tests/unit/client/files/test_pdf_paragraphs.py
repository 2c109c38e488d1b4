"""The text of a PDF reads as on paper: paragraphs are whole, and what belongs to the paper alone is left out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.pdf.document import extract
from kb_client.files.formats.pdf.lines import Line, lines_without_places
from kb_client.files.formats.pdf.paragraphs import join_paragraphs
from kb_client.files.formats.pdf.running_lines import without_running_lines
from kb_client.files.limits import ParseLimits
from tests.unit.client.files.pdf_files import Line as PlacedText
from tests.unit.client.files.pdf_files import assemble, make_pdf, set_paragraph

TIDES = (
    "The tide tables of the harbour are printed each October, and they hold for the whole of the year that follows, "
    "unless the bar of the river has moved in a storm, after which the pilot measures it again with a line and a lead."
)
FERRY = (
    "A ferry leaves the old quay at noon and at six, and it waits for the train from the north if that is late by less "
    "than a quarter of an hour, which the signalman reports by telephone before the gates of the crossing are closed."
)


def read(*pages: list[PlacedText]) -> Extraction:
    return extract(make_pdf(*pages), ExtractOptions(ParseLimits()))


def test_lines_of_a_paragraph_are_one() -> None:
    parsed = read([*set_paragraph(TIDES), *set_paragraph(FERRY, top=580)])
    assert parsed.text == f"{TIDES}\n\n{FERRY}"


def test_an_indent_begins_a_paragraph() -> None:
    first = set_paragraph(TIDES)
    (left, top, line), *rest = set_paragraph(f"mi {FERRY}", top=first[-1][1] - 14)
    assert read([*first, (left + 16, top, line.removeprefix("mi ")), *rest]).text == f"{TIDES}\n\n{FERRY}"


@pytest.mark.parametrize(
    "lines",
    [
        ["Nora Lind", "12 Harbour Road", "4021 Old Port"],
        ["The gulls are gone, the nets are dry,", "No boat is on the sea,", "The lamp is low, the wind is high,"],
        ["1. Loosen the bolt of the left cover.", "2. Lift the cover.", "3. Drain the oil into a clean can."],
        ["- rope of hemp, thirty metres", "- a lamp", "- two oars and a bucket"],
    ],
)
def test_lines_that_end_before_the_edge_stay_lines(lines: list[str]) -> None:
    shown: list[PlacedText] = [(72, 500 - 14 * at, line) for at, line in enumerate(lines)]
    assert read([*set_paragraph(TIDES), *shown]).text == "\n".join([TIDES, "", *lines])


def test_an_entry_of_a_list_is_whole_and_begins_a_line() -> None:
    items = set_paragraph(f"1. {TIDES}", top=700), set_paragraph(f"2. {FERRY}", top=600)
    hanging = [[first, *((left + 14, top, text) for left, top, text in rest)] for first, *rest in items]
    assert read([*hanging[0], *hanging[1]]).text == f"1. {TIDES}\n\n2. {FERRY}"


def test_letters_as_wide_as_each_other_are_code_and_keep_their_lines() -> None:
    code = [
        "for boat in harbour.boats_that_left_before(noon):",
        "    report(boat, signal_of(boat), when=harbour.clock)",
    ]
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>"
    stream = " ".join(
        f"1 0 0 1 72 {700 - 14 * at} Tm ({line.replace('(', chr(92) + '(').replace(')', chr(92) + ')')}) Tj"
        for at, line in enumerate(code)
    )
    parsed = extract(assemble([f"BT /F1 12 Tf {stream} ET".encode()], font=font), ExtractOptions(ParseLimits()))
    assert [line.strip() for line in parsed.text.splitlines()] == [line.strip() for line in code]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("(belo) Tj 3.4 Tc 22.7 0 Td (wu) Tj 0 Tc 18.8 0 Td (nder it) Tj", "below under it"),
        ("[(T) 80 (w) 30 (o boats sail)] TJ", "Two boats sail"),
        ("[(neg ) 290 (ative weather today)] TJ", "negative weather today"),
        ("[(h) -200 (a) -200 (r) -200 (b) -200 (o) -200 (u) -200 (r)] TJ", "harbour"),
    ],
)
def test_words_are_parted_by_the_gaps_between_their_letters(shown: str, text: str) -> None:
    content = f"BT /F1 12 Tf 1 0 0 1 72 700 Tm {shown} ET".encode()
    assert extract(assemble([content]), ExtractOptions(ParseLimits())).text == text


def test_a_sentence_goes_on_over_a_page_and_each_part_keeps_its_page() -> None:
    lines = set_paragraph(f"{TIDES[:-1]} and {FERRY[0].lower()}{FERRY[1:]}")
    half = len(lines) // 2
    feet: list[PlacedText] = [(300, 30, str(number)) for number in (1, 2)]
    second = [(left, 700 - 14 * at, text) for at, (left, _, text) in enumerate(lines[half:])]
    parsed = read([*lines[:half], feet[0]], [*second, feet[1]])
    assert parsed.text == f"{TIDES[:-1]} and a{FERRY[1:]}"
    first, last = parsed.pages
    assert parsed.text[first[1] : first[2]] == " ".join(text for _, _, text in lines[:half])
    assert parsed.text[last[1] : last[2]] == " ".join(text for _, _, text in lines[half:])


def test_columns_that_are_drawn_line_by_line_are_read_one_after_the_other() -> None:
    left, right = set_paragraph(TIDES, width=210), set_paragraph(FERRY, left=320, width=210)
    rows = [line for pair in zip(left, right, strict=False) for line in pair]
    rest = [*left[len(right) :], *right[len(left) :]]
    parsed = read([(72, 740, "News of the harbour and of the river, in two columns, as it was sent"), *rows, *rest])
    assert parsed.text.split("\n\n")[-2:] == [TIDES, FERRY]


def test_rows_of_a_table_with_short_cells_keep_their_lines() -> None:
    rows = [("Name of the boat", "port"), ("Anna", "Old Port"), ("Berta", "North"), ("Clara", "Isle"), ("Dora", "Quay")]
    shown = [
        line for at, (one, two) in enumerate(rows) for line in ((72, 700 - 14 * at, one), (320, 700 - 14 * at, two))
    ]
    assert read(shown).text.splitlines() == [" ".join(row) for row in rows]


def test_leaders_of_a_list_of_contents_are_left_out() -> None:
    parsed = read([(72, 700, "1 Tides . . . . . . . . . . 3"), (72, 686, "2 Ferries ................ 12")])
    assert parsed.text == "1 Tides 3\n2 Ferries 12"


def test_heads_of_chapters_and_numbers_of_pages_are_left_out() -> None:
    heads = ["1.1 Tides 3", "4 The harbour", "1.2 Lamps 5", "6 The harbour", "1.4 Ropes 7"]
    pages: list[list[PlacedText]] = [
        [(72, 760, head), *set_paragraph(f"Part {'abcde'[at]}. {TIDES}")] for at, head in enumerate(heads)
    ]
    assert [page.split(" ")[:2] for page in read(*pages).text.split("\n\n")] == [
        ["Part", f"{each}."] for each in "abcde"
    ]


def test_a_heading_that_names_a_page_once_and_large_chapter_titles_stay() -> None:
    large = "BT /F1 24 Tf 1 0 0 1 72 740 Tm (Chapter {}) Tj /F1 12 Tf 1 0 0 1 72 700 Tm (It is about the {}.) Tj ET"
    words = ["tides", "lamps", "ropes", "nets"]
    data = assemble([large.format(at, word).encode() for at, word in enumerate(words, 1)])
    text = extract(data, ExtractOptions(ParseLimits())).text
    assert re.findall(r"Chapter \d", text) == [f"Chapter {at}" for at in range(1, 5)]
    pages: list[list[PlacedText]] = [
        [(72, 740, "Page 7" if at == 1 else "x"), (72, 700, f"{word} are here.")] for at, word in enumerate(words)
    ]
    assert "Page 7" in read(*pages).text


def test_the_header_of_a_table_that_goes_on_over_pages_stays_with_its_rows() -> None:
    def row(top: int, one: str, two: str) -> list[PlacedText]:
        return [(72, top, one), (300, top, two)]

    pages = [
        [*row(740, "Boat", "Berth"), *row(726, f"Anna {at}", f"north {at * at}"), *row(712, "Dora", f"{at} south")]
        for at in range(4)
    ]
    assert read(*pages).text.count("Boat Berth") == 4


def test_the_same_line_at_the_top_of_two_pages_is_read_once() -> None:
    pages: list[list[PlacedText]] = [
        [(72, 760, "Tables of the harbour"), *set_paragraph(text), (290, 30, f"Page {at} of 2")]
        for at, text in enumerate((TIDES, FERRY), 1)
    ]
    assert read(*pages).text == f"Tables of the harbour\n\n{TIDES}\n\n{FERRY}"


WORD = st.text("abcdefghij", min_size=1, max_size=9)


@given(st.lists(st.lists(WORD, min_size=1, max_size=12), min_size=1, max_size=9))
def test_no_word_is_lost_or_changes_its_place(lines: list[list[str]]) -> None:
    placed = [
        Line(" ".join(words), 72.0, 72.0 + 6 * len(" ".join(words)), 700.0 - 14 * at, 12.0)
        for at, words in enumerate(lines)
    ]
    texts, continued = join_paragraphs([placed, placed[:2]])
    assert texts[0].split() == [word for words in lines for word in words]
    assert continued <= {0}


@given(st.lists(st.lists(WORD, max_size=5), min_size=1, max_size=6))
def test_pages_whose_lines_differ_lose_none(pages: list[list[str]]) -> None:
    lines = [lines_without_places("\n".join(f"{word}{'xyzuvw'[at]}" for word in page)) for at, page in enumerate(pages)]
    assert without_running_lines(lines) == lines
