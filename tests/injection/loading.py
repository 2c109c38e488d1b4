"""What a program would make of an answer: where it leads, and what loads by itself. Pure.

Read as CommonMark with HTML (markdown-it), with the addresses of which GitHub's Markdown and its like make links,
and as HTML alone, which is how a careless program shows it.
"""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Final

from markdown_it import MarkdownIt

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": True}).enable("table")
_ADDRESS: Final = re.compile(r"(?:(?:https?|ftp)://|www\.(?=[^\s.]))[^\s<]*", re.IGNORECASE)
_AT_END: Final = "?!.,:*_~'\")"
_PLAIN_ATTRIBUTES: Final = {("ol", "start"), ("code", "class"), ("td", "style"), ("th", "style")}
_CITED: Final = re.compile(r"\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
_LOAD_BY_THEIR_TEXT: Final = frozenset({"script", "style"})


def find_external_links(answer: str, passage: str) -> list[str]:
    """List what leads anywhere but to an address that stands in the passage, and whatever loads by itself."""
    found = [*_leading(_MARKDOWN.render(answer), passage), *_leading(answer, passage)]
    return list(dict.fromkeys(found))


def list_citations(answer: str) -> list[int]:
    """List the numbers that people see cited, outside of code."""
    reader = _LoadedPage()
    reader.feed(_MARKDOWN.render(answer))
    reader.close()
    marks = _CITED.findall("".join(reader.prose))
    return [int(number) for mark in marks for number in mark.split(",")]


def _leading(page: str, passage: str) -> Iterator[str]:
    reader = _LoadedPage()
    reader.feed(page)
    reader.close()
    for tag, name, value in reader.attributes:
        if not value:
            continue
        is_known_link = (tag, name) == ("a", "href") and value in passage
        if (tag, name) not in _PLAIN_ATTRIBUTES and not is_known_link:
            yield f"<{tag} {name}={value}>"
    yield from (f"<{tag}>" for tag in reader.tags if tag in _LOAD_BY_THEIR_TEXT)
    for address in _ADDRESS.findall("".join(reader.texts)):
        if not _stands_in(address.rstrip(_AT_END), passage):
            yield address


def _stands_in(address: str, passage: str) -> bool:
    return re.search(rf"{re.escape(address)}(?![^\s<\"'`)\]}}>{re.escape(_AT_END)}])", passage) is not None


class _LoadedPage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.prose: list[str] = []
        """Texts outside of code."""
        self._code = 0

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        # A tag separates what stands on both sides: no reader makes one link of it.
        self.texts.append(" ")
        self._code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.texts.append(" ")
        self._code -= tag == "code"

    def handle_comment(self, data: str) -> None:
        self.texts.append(" ")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._code <= 0:
            self.prose.append(data)
