"""The formats that can be read. Each module reads one; it is imported when the first file of its format comes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class FileFormat:
    content_type: str
    module: str
    """Module of this package with `extract(data, options) -> Extraction`."""


_BY_SUFFIXES: Final = {
    (".txt", ".text"): FileFormat("text/plain", "plain_text"),
    (".md", ".markdown"): FileFormat("text/markdown", "markdown"),
    (".html", ".htm", ".xhtml"): FileFormat("text/html", "web_page"),
    (".pdf",): FileFormat("application/pdf", "pdf"),
    (".docx",): FileFormat("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "word"),
    (".pptx",): FileFormat("application/vnd.openxmlformats-officedocument.presentationml.presentation", "powerpoint"),
    (".xlsx",): FileFormat("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "excel"),
    (".csv", ".tsv"): FileFormat("text/csv", "delimited"),
    (".eml",): FileFormat("message/rfc822", "mail"),
}
FORMATS: Final = {suffix: form for suffixes, form in _BY_SUFFIXES.items() for suffix in suffixes}
SUFFIXES: Final = frozenset(FORMATS)


def format_of(path: Path) -> FileFormat:
    """Return the format of a file by the end of its name. Raises KeyError for other ends."""
    return FORMATS[path.suffix.lower()]
