"""Files that are pushed already are sent again when the parsers give other texts, and only then."""

import hashlib
import json
from email.message import EmailMessage
from pathlib import Path

import pytest

from kb_client.files.file_parser import FileParser
from kb_client.files.find_files import find_files
from kb_client.files.parsed_file import ParsedFile
from kb_client.files.source_digest import READER_VERSION, digest_bytes
from kb_contracts.documents import OcrCompleted
from tests.unit.client.files.pdf_files import FI, make_pdf

TEXTS_OF_VERSION = {4: "4c2ed8d9a3a4e757e9d20a092c4e410860f33d42f341dc4500799e7c70eaf7ca"}
"""Digest of the texts of all samples by `READER_VERSION`. If it changes, raise the version and replace the entry."""


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Sample"
    message["Date"] = "Sat, 31 Jan 2026 12:00:00 +0100"
    message.set_content("Hello Bob.")
    return message.as_bytes()


SAMPLES = {
    "a.txt": "Größe".encode("cp1252"),
    "a.md": b"# Title\n\ntext",
    "a.html": b"<title>T</title><h1>A</h1><ol><li>x<li>y</ol><pre>a  b</pre><p><a href=u>l</a> a_b*c",
    "a.csv": b"Name;Born\nAda;1815\nBob;\n",
    "a.eml": mail(),
    "a.pdf": make_pdf(
        *[[(72, 750, "Head"), (72, 700, f"{FI}rst {n * n} li-"), (72, 686, "ne"), (72, 30, str(n))] for n in range(4)]
    ),
}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> list[ParsedFile]:
    folder = tmp_path_factory.mktemp("samples")
    for name, data in SAMPLES.items():
        (folder / name).write_bytes(data)
    with FileParser() as parser:
        results = [parser.parse(found) for found in find_files([folder], source="samples").files]
    assert all(isinstance(each, ParsedFile) for each in results), results
    return [each for each in results if isinstance(each, ParsedFile)]


def test_other_texts_have_another_version(parsed: list[ParsedFile]) -> None:
    texts = json.dumps([[each.text, each.document_name, [page.start for page in each.pages]] for each in parsed])
    assert {READER_VERSION: hashlib.sha256(texts.encode()).hexdigest()} == TEXTS_OF_VERSION, texts


def test_the_digest_that_is_sent_is_that_of_the_plan(parsed: list[ParsedFile]) -> None:
    assert {each.metadata["path"]: each.source_digest for each in parsed} == {
        name: digest_bytes(data) for name, data in SAMPLES.items()
    }


def test_a_parsed_file_is_an_event_that_is_accepted(parsed: list[ParsedFile]) -> None:
    for each in parsed:
        fields = each.to_request({"b", "a"}).model_dump(exclude={"revision"})
        event = OcrCompleted(organization_id="acme", document_id=each.document_id, revision=1, **fields)
        assert (event.text, event.tag_ids, event.source_digest) == (each.text, ["a", "b"], each.source_digest)
    stored = parsed[0].to_request([], text_ref="acme/a/1")
    assert (stored.text, stored.text_ref) == (None, "acme/a/1")


def test_a_parsed_file_shows_no_path_of_the_machine(parsed: list[ParsedFile], tmp_path: Path) -> None:
    assert str(tmp_path.parent) not in str(parsed)
