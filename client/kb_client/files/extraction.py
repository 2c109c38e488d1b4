"""Text that a parser takes out of a file, and the errors and options of all parsers."""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from kb_client.files.limits import ParseLimits


class UnreadableDocument(Exception):
    """A file has no text that could be read. Neither part repeats anything that is in the file."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    limits: ParseLimits
    ocr: bool = False
    """Recognition of pages without text, by tesseract."""
    ocr_languages: str = "eng"
    """Languages in the form of tesseract, such as `deu+eng`."""
    web_links: bool = False
    """Links of web pages, which then may have no text; what surrounds the text on each page of a site is left out."""


@dataclass(frozen=True, slots=True)
class WebLinks:
    """Links of a web page, as they are written there."""

    links: tuple[str, ...] = ()
    base: str | None = None
    """Address that the links are relative to, if it is not the page's own."""
    canonical: str | None = None
    """Address that the page should have."""
    index: bool = True
    """False if the page asks search engines to leave it out."""
    follow: bool = True
    """False if the page asks search engines to ignore its links."""


@dataclass(frozen=True, slots=True)
class Extraction:
    text: str
    title: str | None = None
    date: datetime | None = None
    """Date that the file gives itself, with a time zone."""
    pages: tuple[tuple[int, int, int], ...] = ()
    """Number, start and end of each page in the text."""
    warnings: tuple[str, ...] = ()
    web_links: WebLinks | None = None


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as `2 formulas`; an empty text for none."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else ""


def join_pages(
    numbered: list[tuple[int, str]], *, continued: Container[int] = ()
) -> tuple[str, tuple[tuple[int, int, int], ...]]:
    """Join the texts of pages by empty lines, and return the position of each; pages without text have none.

    Args:
        numbered: texts, with the numbers of their pages.
        continued: numbers of pages whose last sentence goes on on the next one, after a space.
    """
    parts: list[str] = []
    pages: list[tuple[int, int, int]] = []
    at = 0
    for number, page_text in numbered:
        stripped = page_text.strip()
        if not stripped:
            continue
        if parts:
            parts.append(" " if pages[-1][0] in continued and number == pages[-1][0] + 1 else "\n\n")
            at += len(parts[-1])
        parts.append(stripped)
        pages.append((number, at, at + len(stripped)))
        at += len(stripped)
    return "".join(parts), tuple(pages)
