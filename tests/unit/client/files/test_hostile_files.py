"""A hostile file harms neither the caller nor the files after it: it is a problem of its own."""

import asyncio
import io
import os
import signal
import socket
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import docx
import openpyxl
import psutil
import pytest

from kb_client.files.file_parser import FileParser, OcrUnavailable
from kb_client.files.file_problem import FileProblem
from kb_client.files.find_files import find_files
from kb_client.files.found_file import FoundFile
from kb_client.files.limits import ParseLimits
from kb_client.files.parsed_file import ParsedFile
from tests.unit.client.files.pdf_files import make_endless_pdf, make_pdf, make_scan
from tests.waiting import until

SHEET_NAMESPACE: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
CANARY: Final = "canary-of-a-local-file"
LIMITS: Final = ParseLimits(memory_bytes=600_000_000, unpacked_bytes=20_000_000)

ENDLESS_PDF: Final = make_endless_pdf(levels=4, pages=200)

Parse = Callable[[str, bytes], ParsedFile | FileProblem]


@pytest.fixture(scope="module")
def parser() -> Iterator[FileParser]:
    with FileParser(LIMITS) as parser:
        yield parser


@pytest.fixture
def parse(parser: FileParser, tmp_path: Path) -> Parse:
    def parse_file(name: str, data: bytes) -> ParsedFile | FileProblem:
        (tmp_path / name).write_bytes(data)
        return parser.parse(find_files([tmp_path / name]).files[0])

    return parse_file


def office_file(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "docx":
        docx.Document().save(file)
    else:
        openpyxl.Workbook().save(file)
    return file.getvalue()


def with_member(archive: bytes, name: str, content: bytes) -> bytes:
    """Return a file of Office with one of its members replaced."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, content if member.filename == name else old.read(member))
    return file.getvalue()


def with_macros(archive: bytes) -> bytes:
    file = io.BytesIO(archive)
    with zipfile.ZipFile(file, "a") as members:
        members.writestr("word/vbaProject.bin", b"Sub AutoOpen()")
    return file.getvalue()


def word_xml(body: str, declarations: str = "") -> bytes:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    return f'<?xml version="1.0"?>{declarations}{document}'.encode()


def word_file(body: str, declarations: str = "") -> bytes:
    return with_member(office_file("docx"), "word/document.xml", word_xml(body, declarations))


def word_text(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_a_pdf_without_end_is_stopped_and_the_next_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.pdf").write_bytes(ENDLESS_PDF)
    # A text needs no library, whose import alone takes a slow machine half a second.
    (tmp_path / "2.txt").write_text("good")
    with FileParser(ParseLimits(cpu_s=0.5)) as parser:
        endless, good = (parser.parse(found) for found in find_files([tmp_path]).files)
    assert isinstance(endless, FileProblem)
    assert endless.reason == "reading it took more than 0.5 s of CPU time"
    assert isinstance(good, ParsedFile)


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(parse: Parse) -> None:
    problem = parse("bomb.docx", with_member(office_file("docx"), "word/document.xml", b"\0" * 20_000_001))
    assert isinstance(problem, FileProblem)
    assert problem.reason == "it unpacks to more than 20 MB"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("1.docx", lambda: word_file(word_text("a") * 600_000)),
        ("1.pdf", lambda: make_endless_pdf(levels=12)),
    ],
)
def test_a_file_that_needs_too_much_memory_is_a_problem_and_the_next_one_is_read(
    tmp_path: Path, name: str, make: Callable[[], bytes]
) -> None:
    (tmp_path / name).write_bytes(make())
    (tmp_path / "2.txt").write_bytes(b"good")
    limits = ParseLimits(memory_bytes=250_000_000, cpu_s=20)
    with FileParser(limits) as parser:
        big, good = (parser.parse(found) for found in find_files([tmp_path]).files)
    assert isinstance(big, FileProblem)
    assert isinstance(good, ParsedFile)


def test_a_file_with_macros_is_a_problem(parse: Parse) -> None:
    problem = parse("macros.docx", with_macros(word_file(word_text("good"))))
    assert isinstance(problem, FileProblem)
    assert "contains macros" in problem.reason


def test_elements_nested_without_end_are_a_problem(parse: Parse) -> None:
    assert isinstance(parse("deep.docx", word_file("<w:p>" * 10_000 + "</w:p>" * 10_000)), FileProblem)
    html = parse("deep.html", b"<div>" * 10_000 + b"deep")
    assert isinstance(html, FileProblem) or html.text.strip() == "deep"


@pytest.mark.parametrize("kind", ["docx", "xlsx"])
def test_entities_read_no_other_file(parse: Parse, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text(CANARY)
    declarations = f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    if kind == "docx":
        data = word_file(word_text("before &x; after"), declarations)
    else:
        cell = '<row r="1"><c r="A1" t="inlineStr"><is><t>before &x; after</t></is></c></row>'
        namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        rows = f'<worksheet xmlns="{namespace}"><sheetData>{cell}</sheetData></worksheet>'
        sheet = f'<?xml version="1.0"?>{declarations}{rows}'
        data = with_member(office_file("xlsx"), "xl/worksheets/sheet1.xml", sheet.encode())
    result = parse(f"a.{kind}", data)
    assert CANARY not in str(result)


def workbook_with(rows: str) -> bytes:
    sheet = f'<worksheet xmlns="{SHEET_NAMESPACE}"><sheetData>{rows}</sheetData></worksheet>'
    return with_member(office_file("xlsx"), "xl/worksheets/sheet1.xml", sheet.encode())


def test_a_few_bytes_that_stand_for_too_many_cells_are_a_problem(tmp_path: Path) -> None:
    wide = "".join(f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>' for row in range(1, 21))
    (tmp_path / "a.xlsx").write_bytes(workbook_with(wide))
    for cells, is_read in ((200_000, False), (2_000_000, True)):
        with FileParser(ParseLimits(cells=cells)) as parser:
            result = parser.parse(find_files([tmp_path]).files[0])
        assert isinstance(result, ParsedFile if is_read else FileProblem)
        assert is_read or "more than 200,000 cells" in str(result)


def test_rows_count_although_they_have_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(workbook_with('<row r="1"><c r="A1"><v>1</v></c></row>' + "<row/>" * 200))
    with FileParser(ParseLimits(cells=100)) as parser:
        assert isinstance(parser.parse(find_files([tmp_path]).files[0]), FileProblem)


def test_rows_that_are_not_in_the_file_are_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(workbook_with('<row r="1000000"><c r="A1000000"><v>1</v></c></row>'))
    with FileParser(ParseLimits(cells=100)) as parser:
        assert isinstance(parser.parse(find_files([tmp_path]).files[0]), ParsedFile)


def program_instead_of_tesseract(folder: Path, monkeypatch: pytest.MonkeyPatch, *, does: str) -> None:
    program = folder / "tesseract"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def scan(tmp_path: Path) -> FoundFile:
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "a.pdf").write_bytes(make_scan(b"\x80" * 100, width=10, height=10))
    return find_files([tmp_path / "scans"]).files[0]


def test_a_scan_is_read_however_long_its_pages_take_together(
    tmp_path: Path, scan: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_instead_of_tesseract(tmp_path, monkeypatch, does="echo recognized")
    with FileParser(ParseLimits(wall_s=0.01), ocr=True) as parser:
        result = parser.parse(scan)
    assert isinstance(result, ParsedFile)
    assert result.text == "recognized"


def test_a_scanned_page_whose_recognition_never_ends_is_left_out(
    tmp_path: Path, scan: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_instead_of_tesseract(tmp_path, monkeypatch, does="exec sleep 600")
    with FileParser(ParseLimits(ocr_page_s=0.5), ocr=True) as parser:
        result = parser.parse(scan)
    assert isinstance(result, FileProblem)
    assert result.reason == "it is a scan, and no text was recognized in it"


def test_entities_that_multiply_are_stopped(parse: Parse) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "lol"}">' for n in range(10))
    result = parse("a.docx", word_file(word_text("&e9;"), f"<!DOCTYPE d [{entities}]>"))
    assert isinstance(result, FileProblem) or len(result.text) < 1_000_000


def test_a_page_reaches_no_server(parse: Parse) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        dtd = f'<!DOCTYPE d SYSTEM "{address}"><!-- -->'
        parse("a.html", f'{dtd}<img src="{address}"><link rel=stylesheet href="{address}"><p>x'.encode())
        parse("a.docx", word_file(word_text("x"), f'<!DOCTYPE d SYSTEM "{address}">'))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_problem_repeats_nothing_of_the_file(parse: Parse) -> None:
    for name in ("a.docx", "a.xlsx", "a.pptx"):
        kind = "xlsx" if name == "a.xlsx" else "docx"
        data = with_member(office_file(kind), "[Content_Types].xml", f"<{CANARY}".encode())
        problem = parse(name, data)
        assert isinstance(problem, FileProblem)
        assert CANARY not in str(problem)


def test_modules_beside_the_documents_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lxml", "docx", "pypdfium2", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "a.pdf").write_bytes(make_pdf([(72, 700, "good")]))
    monkeypatch.chdir(tmp_path)
    with FileParser() as parser:
        assert isinstance(parser.parse(find_files(["."]).files[0]), ParsedFile)
    assert not (tmp_path / "ran").exists()


def test_a_file_takes_no_longer_than_the_limit_on_the_clock(tmp_path: Path) -> None:
    (tmp_path / "bomb.pdf").write_bytes(ENDLESS_PDF)
    with FileParser(ParseLimits(cpu_s=60, wall_s=0.5)) as parser:
        problem = parser.parse(find_files([tmp_path]).files[0])
    assert isinstance(problem, FileProblem)
    assert problem.reason == "reading it took longer than 0.5 s"


def parser_processes() -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if "kb_client.files.parser_process" in each.cmdline() and each.status() != psutil.STATUS_ZOMBIE
    ]


async def test_closing_in_the_middle_of_a_file_ends_its_process(tmp_path: Path) -> None:
    (tmp_path / "bomb.pdf").write_bytes(ENDLESS_PDF)
    before = {each.pid for each in parser_processes()}
    parser = FileParser()
    parsing = asyncio.create_task(asyncio.to_thread(parser.parse, *find_files([tmp_path]).files))
    await until(lambda: {each.pid for each in parser_processes()} > before)
    parser.close()
    assert isinstance(await parsing, FileProblem)
    assert {each.pid for each in parser_processes()} <= before


def test_closing_before_a_file_is_named_to_the_process_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("text")
    parser = FileParser()
    start = parser._running_process

    def start_and_close() -> subprocess.Popen[bytes]:
        process = start()
        parser.close()
        return process

    monkeypatch.setattr(parser, "_running_process", start_and_close)
    assert isinstance(parser.parse(*find_files([tmp_path]).files), FileProblem)


async def test_one_process_reads_many_files_and_is_replaced_when_it_dies(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("text")
    before = {each.pid for each in parser_processes()}
    with FileParser() as parser:
        first, second, third = find_files([tmp_path]).files
        assert isinstance(parser.parse(first), ParsedFile)
        assert isinstance(parser.parse(second), ParsedFile)
        [pid] = {each.pid for each in parser_processes()} - before
        os.kill(pid, signal.SIGKILL)
        await until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        assert isinstance(parser.parse(third), ParsedFile)


def test_languages_of_ocr_are_no_options_of_a_program() -> None:
    with pytest.raises(OcrUnavailable):
        FileParser(ocr_languages="--tessdata-dir")
