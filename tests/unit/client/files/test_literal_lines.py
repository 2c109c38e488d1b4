"""What begins with `#` in a file without Markdown is no heading of the document, and looks as it does in the file."""

from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.file_parser import FileParser
from kb_client.files.find_files import find_files
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.parsed_file import ParsedFile
from kb_shared.chunking.chunk import ChunkerType, ChunkingConfig
from kb_shared.chunking.chunker import chunk_text
from tests.unit.client.files.pdf_files import make_pdf

CONFIG = ChunkingConfig(ChunkerType.RECURSIVE, 200, 0)
COMMENTS = "# Install it\npip install kb\n  ## and start it\n#include <kb>\n#!/bin/sh\nkb up"


@pytest.fixture(scope="module")
def parser() -> Iterator[FileParser]:
    with FileParser() as parser:
        yield parser


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Sample"
    message.set_content(COMMENTS)
    return message.as_bytes()


def word(path: Path) -> bytes:
    document = docx.Document()
    document.add_heading("Rules", 1)
    document.add_paragraph("# Install it")
    document.save(str(path))
    return path.read_bytes()


FILES: dict[str, Callable[[Path], bytes]] = {
    "a.pdf": lambda _: make_pdf([(72, 700 - 14 * at, line) for at, line in enumerate(COMMENTS.split("\n"))]),
    "a.txt": lambda _: COMMENTS.encode(),
    "a.csv": lambda _: b"# Install it,1\n## and start it,2\n",
    "a.eml": lambda _: mail(),
    "a.docx": lambda folder: word(folder / "made.docx"),
}


@pytest.mark.parametrize("name", FILES)
def test_comments_in_a_file_are_no_headings(parser: FileParser, tmp_path: Path, name: str) -> None:
    data = FILES[name](tmp_path)
    (tmp_path / name).write_bytes(data)
    parsed = parser.parse(find_files([tmp_path / name]).files[0])
    assert isinstance(parsed, ParsedFile), parsed
    assert "# Install it" in parsed.text.replace("\u00a0", " ")
    titles = {title for chunk in chunk_text(parsed.text, CONFIG) for title in chunk.heading_path}
    assert titles == ({"Rules"} if name == "a.docx" else set())


@given(st.text("# \t\nxé\u2003", max_size=40))
def test_no_line_is_a_heading_and_each_character_stays_in_its_place(text: str) -> None:
    kept = keep_literal(text)
    assert len(kept) == len(text)
    assert all(after in (before, "\u00a0") for before, after in zip(text, kept, strict=True))
    assert not any(chunk.heading_path or chunk.chunk_type == "heading" for chunk in chunk_text(kept, CONFIG))


def test_only_what_would_be_a_heading_changes() -> None:
    assert keep_literal("#include <kb>\n#\n# \na # b\n####### c") == "#include <kb>\n#\n# \na # b\n####### c"
    assert keep_literal("# a\n   ### b") == "#\u00a0a\n   ###\u00a0b"
