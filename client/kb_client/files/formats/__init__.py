"""The formats that can be read, and the module that reads each, imported when the first file of its format comes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kb_client.files.extraction import UnreadableDocument


@dataclass(frozen=True, slots=True)
class FileFormat:
    content_type: str
    module: str
    """Module below this package with `extract(data, options) -> Extraction`."""


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_BY_SUFFIXES: Final = {
    (".txt", ".text"): FileFormat("text/plain", "plain_text"),
    (".md", ".markdown"): FileFormat("text/markdown", "markdown"),
    (".html", ".htm", ".xhtml"): FileFormat("text/html", "html.page"),
    (".pdf",): FileFormat("application/pdf", "pdf.document"),
    (".docx",): FileFormat(f"{_OFFICE}.wordprocessingml.document", "office.word"),
    (".pptx",): FileFormat(
        "application/vnd.openxmlformats-officedocument.presentationml.presentation", "office.powerpoint"
    ),
    (".xlsx",): FileFormat(f"{_OFFICE}.spreadsheetml.sheet", "office.excel"),
    (".csv", ".tsv"): FileFormat("text/csv", "delimited"),
    (".eml",): FileFormat("message/rfc822", "mail.message"),
}
FORMATS: Final = {suffix: form for suffixes, form in _BY_SUFFIXES.items() for suffix in suffixes}
SUFFIXES: Final = frozenset(FORMATS)


def format_of(path: Path) -> FileFormat:
    """Return the format of a file by the end of its name.

    Raises:
        UnreadableDocument: files with this end can't be read.
    """
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise UnreadableDocument(describe_type(path.suffix), "leave it out, or save it in another format")
    return found


def describe_type(suffix: str) -> str:
    """Return why files with this end of their names are left out."""
    return f"files of the type {suffix.lower() or '(none)'} can't be read"
