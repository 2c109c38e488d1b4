"""Texts, titles, dates and pages of files of each format, as the parser process reads them."""

import io
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from PIL import Image, ImageDraw, ImageFont

from kb_client.files.file_parser import FileParser
from kb_client.files.file_problem import FileProblem
from kb_client.files.find_files import find_files
from kb_client.files.ocr import is_ocr_available
from kb_client.files.parsed_file import ParsedFile
from tests.unit.client.files.pdf_files import FI, Line, make_pdf, make_scan

Parse = Callable[[str, bytes], ParsedFile]


@pytest.fixture(scope="module")
def parser() -> Iterator[FileParser]:
    with FileParser() as parser:
        yield parser


@pytest.fixture
def parse_any(parser: FileParser, tmp_path: Path) -> Callable[[str, bytes], ParsedFile | FileProblem]:
    def parse(name: str, data: bytes) -> ParsedFile | FileProblem:
        path = tmp_path / name
        path.write_bytes(data)
        [found] = find_files([path]).files
        return parser.parse(found)

    return parse


@pytest.fixture
def parse(parse_any: Callable[[str, bytes], ParsedFile | FileProblem]) -> Parse:
    def parse(name: str, data: bytes) -> ParsedFile:
        parsed = parse_any(name, data)
        assert isinstance(parsed, ParsedFile), parsed
        return parsed

    return parse


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def paragraph(x: int, *lines: str, top: int = 700) -> list[Line]:
    return [(x, top - 14 * number, line) for number, line in enumerate(lines)]


def test_text_keeps_its_lines_and_has_its_name_and_modification_time(parser: FileParser, tmp_path: Path) -> None:
    path = tmp_path / "Besprechung März.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    [found] = find_files([tmp_path]).files
    parsed = parser.parse(found)
    assert isinstance(parsed, ParsedFile)
    assert (parsed.text, parsed.document_name) == ("one\ntwo\n", "Besprechung März.txt")
    assert parsed.upload_date == datetime.fromtimestamp(1_700_000_000, UTC)
    assert (parsed.content_type, parsed.metadata) == ("text/plain", {"path": "Besprechung März.txt"})
    assert parsed.document_id == found.document_id


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_text_is_decoded_and_what_was_assumed_is_said(parse: Parse, encoding: str) -> None:
    text = "Die Müllabfuhr öffnet für 20 €.\nAm Samstag ist geschlossen."
    parsed = parse("a.txt", text.encode(encoding))
    assert parsed.text == text
    assumed = [warning for warning in parsed.warnings if encoding in warning]
    assert bool(assumed) == (encoding in ("cp1252", "utf-16-le", "utf-16-be"))


def test_title_and_date_of_markdown_come_from_front_matter_or_the_first_heading(parse: Parse) -> None:
    with_fields = parse("a.md", b"---\ntitle: 'Pay slips'\ndate: 2026-01-31\n---\n# Other\n")
    assert (with_fields.document_name, with_fields.upload_date) == ("Pay slips", datetime(2026, 1, 31, tzinfo=UTC))
    assert parse("b.md", b"```\n# code\n```\n# The *first* [one](x.md) #\n").document_name == "The first one"
    assert parse("c.md", b"Underlined\n==========\n").document_name == "Underlined"
    assert parse("d.md", b"no heading").document_name == "d.md"


def test_a_page_of_html_becomes_markdown_without_scripts_and_navigation(parse: Parse) -> None:
    parsed = parse(
        "a.html",
        (
            "<html><head><meta charset=iso-8859-1><title>Über uns</title><meta name=date content=2026-02-01></head>"
            "<body><nav>Home</nav><script>alert(1)</script><main><h2>Preise</h2>"
            "<ul><li>Brot <a href=x>3 £</a></ul>"
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>"
            "<p hidden>x</p></main></html>"
        ).encode("iso-8859-1"),
    )
    assert (parsed.document_name, parsed.upload_date) == ("Über uns", datetime(2026, 2, 1, tzinfo=UTC))
    assert parsed.text.startswith("## Preise\n\n- Brot 3 £\n\n| A | B |\n| --- | --- |\n| 1 | 2 |")
    assert not {"Home", "alert", "x"} & set(parsed.text.split())


def test_a_title_of_a_template_gives_way_to_the_name_of_the_file(parse: Parse) -> None:
    assert parse("a.pdf", make_pdf([(72, 700, "x")], info={"Title": "Untitled document"})).document_name == "a.pdf"
    assert parse("b.html", b"<title>Document1</title><p>x").document_name == "b.html"


def test_a_pdf_keeps_its_columns_and_has_whole_words(parse: Parse) -> None:
    left = paragraph(72, f"The {FI}rst column is hyphen-", "ated; a self-", "made user-", "supplied page", "ends here.")
    right = paragraph(330, "The second column", "is self-made, too.")
    below = paragraph(72, "A user has supplied it.", top=300)
    info = {"Title": "Two columns", "ModDate": "D:20240131120000+01'00'"}
    parsed = parse("a.pdf", make_pdf([*left, *right, *below], info=info))
    assert parsed.text == (
        "The first column is hyphenated; a self-made user-supplied page\nends here.\n"
        "The second column\nis self-made, too.\nA user has supplied it."
    )
    assert parsed.document_name == "Two columns"
    assert parsed.upload_date == datetime(2024, 1, 31, 11, tzinfo=UTC)


def test_a_pdf_has_the_positions_of_its_pages_and_no_headers_and_footers(parse: Parse) -> None:
    pages = [
        [
            *paragraph(72, "Handbook", f"Chapter {number // 4}: Trees {number}", top=770),
            (72, 500, text),
            (300, 20, "ACME"),
        ]
        for number, text in enumerate(["Oak 7", "Beech", "", "Lime"], 4)
    ]
    parsed = parse("a.pdf", make_pdf(*pages, [], [(72, 500, "Elm")], info={"Title": "Microsoft Word - a.doc"}))
    assert parsed.document_name == "a.pdf"
    # What names the document stays once.
    assert parsed.text == "Handbook\nOak 7\nACME\n\nBeech\n\nLime\n\nElm"
    texts = {page.page: parsed.text[page.start : page.end] for page in parsed.pages}
    assert texts == {1: "Handbook\nOak 7\nACME", 2: "Beech", 4: "Lime", 6: "Elm"}


def test_text_outside_of_the_page_which_no_reader_sees_is_left_out(parse: Parse) -> None:
    assert parse("a.pdf", make_pdf([(72, 700, "seen"), (900, 700, "hidden"), (72, -40, "hidden")])).text == "seen"


def test_word_keeps_headings_lists_and_tables_in_their_order(parse: Parse) -> None:
    document = docx.Document()
    document.core_properties.title = "Travel"
    document.core_properties.modified = datetime(2025, 5, 1, 12)  # noqa: DTZ001  # python-docx wants it without a zone
    document.add_heading("Rules", 1)
    document.add_paragraph("Before the table.")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["Country", "Rate", "Peru", "40"], strict=True):
        cell.text = text
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    parsed = parse("a.docx", saved(document))
    assert parsed.text == "# Rules\n\nBefore the table.\n\nCountry: Peru; Rate: 40\n\n- one\n- two"
    assert (parsed.document_name, parsed.upload_date) == ("Travel", datetime(2025, 5, 1, 12, tzinfo=UTC))


def test_each_visible_slide_is_a_page_with_its_notes(parse: Parse) -> None:
    presentation = pptx.Presentation()
    for number in range(3):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text_frame.text = f"Point {number}"
        slide.notes_slide.notes_text_frame.text = f"Say {number}"
    presentation.slides[1]._element.set("show", "0")
    parsed = parse("a.pptx", saved(presentation))
    assert {page.page: parsed.text[page.start : page.end] for page in parsed.pages} == {
        1: "## Slide 0\n\nPoint 0\n\nNotes: Say 0",
        3: "## Slide 2\n\nPoint 2\n\nNotes: Say 2",
    }
    assert (parsed.document_name, parsed.warnings) == (
        "Slide 0",
        ("1 hidden slide was left out; show what should be found, and save",),
    )


def test_rows_of_visible_sheets_can_be_understood_alone(parse: Parse) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.title = "Prices"
    since = datetime(2026, 1, 1)  # noqa: DTZ001  # times of workbooks have no zone
    for row in [["Article", "Price", "Since"], ["Bread", 3.5, since], [], ["Milk", 0.1 + 0.2, None]]:
        workbook.active.append(row)
    workbook.create_sheet("Secret").append(["hidden"])
    workbook["Secret"].sheet_state = "hidden"
    parsed = parse("a.xlsx", saved(workbook))
    assert parsed.text == "## Prices\n\nArticle: Bread; Price: 3.5; Since: 2026-01-01\nArticle: Milk; Price: 0.3"
    assert parsed.warnings == ("1 hidden sheet was left out; unhide what should be found, and save",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_rows_of_csv_have_the_names_of_their_columns(parse: Parse, delimiter: str) -> None:
    rows = [["Name", "Note"], ["Ada", '"first, or\nso; | it is said"'], ["Bob", ""]]
    parsed = parse("a.csv", "\n".join(delimiter.join(row) for row in rows).encode())
    assert parsed.text == "Name: Ada; Note: first, or so; | it is said\nName: Bob"


def test_csv_without_a_header_keeps_its_values(parse: Parse) -> None:
    assert parse("a.csv", b"1,2\n3,4\n").text == "1 | 2\n3 | 4"


def test_a_mail_has_its_subject_date_and_plain_text(parse: Parse) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ada <ada@example.org>", "bob@example.org", "Größe"
    mail["Date"] = "Sat, 31 Jan 2026 12:00:00 +0100"
    mail["X-Secret"] = "canary"
    mail.set_content("Hello Bob,\nall is well.")
    mail.add_alternative("<p>Hello</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    parsed = parse("a.eml", mail.as_bytes())
    assert (parsed.document_name, parsed.upload_date) == ("Größe", datetime(2026, 1, 31, 11, tzinfo=UTC))
    assert parsed.text.endswith("Subject: Größe\n\nHello Bob,\nall is well.")
    assert "canary" not in parsed.text
    assert parsed.warnings == ("1 attachments were not read; save and push them as files",)


def test_a_mail_in_html_only_becomes_markdown(parse: Parse) -> None:
    mail = EmailMessage()
    mail["Subject"] = "News"
    mail.set_content("<h1>News</h1><p>All <b>well</b>.</p>", subtype="html")
    assert parse("a.eml", mail.as_bytes()).text == "Subject: News\n\n# News\n\nAll **well**."


def test_a_scan_without_text_says_how_it_can_be_read(
    parse_any: Callable[[str, bytes], ParsedFile | FileProblem],
) -> None:
    problem = parse_any("a.pdf", make_scan(b"\xff" * 100, width=10, height=10))
    assert isinstance(problem, FileProblem)
    assert problem.reason == "it is a scan without text"
    assert "--ocr" in problem.remedy


@pytest.mark.skipif(not is_ocr_available(), reason="tesseract is not installed")
def test_ocr_reads_a_scan(tmp_path: Path) -> None:
    image = Image.new("L", (850, 1100), 255)
    ImageDraw.Draw(image).text((80, 100), "Forty widgets", 0, ImageFont.load_default(size=60))
    (tmp_path / "a.pdf").write_bytes(make_scan(image.tobytes(), width=850, height=1100))
    with FileParser(ocr=True) as parser:
        parsed = parser.parse(find_files([tmp_path]).files[0])
    assert isinstance(parsed, ParsedFile)
    assert parsed.text == "Forty widgets"
    assert parsed.warnings == ("1 of 1 pages were recognized by OCR",)


def test_a_file_of_pictures_says_what_to_do(
    parse_any: Callable[[str, bytes], ParsedFile | FileProblem],
) -> None:
    presentation, picture = pptx.Presentation(), io.BytesIO()
    Image.new("L", (8, 8), 200).save(picture, "PNG")
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.shapes.add_picture(picture, 0, 0, presentation.slide_width, presentation.slide_height)
    problem = parse_any("a.pptx", saved(presentation))
    assert isinstance(problem, FileProblem)
    assert problem.reason == "it has no text"
    assert "--ocr" in problem.remedy


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.pdf", b"no PDF", "it is not a PDF, although its name says so"),
        ("a.pdf", b"%PDF-1.4\nno more", "it is damaged"),
        ("a.pdf", make_pdf([]), "all its pages are blank"),
        ("a.docx", b"no archive", "it is damaged, or of another format than its name says"),
        ("a.xlsx", bytes.fromhex("d0cf11e0a1b11ae1"), "it is encrypted, or in the format of Office before 2007"),
        ("a.txt", b" \n", "it has no text"),
        ("a.txt", bytes(range(256)) * 20, "it is not text, although its name says so"),
        ("a.eml", b"\n\n", "it is not a mail"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    parse_any: Callable[[str, bytes], ParsedFile | FileProblem], name: str, data: bytes, reason: str
) -> None:
    problem = parse_any(name, data)
    assert isinstance(problem, FileProblem), problem
    assert problem.reason == reason
    assert problem.remedy
