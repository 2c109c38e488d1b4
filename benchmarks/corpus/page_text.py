"""The text of an HTML page without its navigation, with headings, lists and tables as in Markdown."""

import re
from html.parser import HTMLParser
from typing import Final, NamedTuple

_SKIPPED: Final = frozenset({"script", "style", "nav", "header", "footer", "aside", "form", "select", "button"})
_SKIPPED_ROLES: Final = frozenset({"navigation", "search", "contentinfo"})
_SKIPPED_NAMES: Final = frozenset(
    {"navheader", "navfooter", "page-header", "path", "up", "toplang", "bottomlang", "footer", "nosearch", "headerlink"}
    | {"hd", "nav", "global-nav"}
)
"""Classes and ids of the navigation in pages of DocBook, Apache, SQLite, Sphinx and Django."""
_BLOCKS: Final = frozenset(
    {"p", "div", "section", "article", "ul", "ol", "dl", "dt", "dd", "table", "blockquote", "pre", "body", "main"}
)
_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CELLS: Final = frozenset({"td", "th"})


class PageText(NamedTuple):
    title: str
    language: str | None
    """As the page says, without the region: `de` of `de-DE`; None if it says nothing."""
    text: str


def read_page(html: str) -> PageText:
    """Return the readable text of a page. Broken HTML is read as far as it can be."""
    reader = _PageReader()
    reader.feed(html)
    reader.close()
    return PageText(_squeeze(reader.title), reader.language, _tidy("".join(reader.parts)))


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.language: str | None = None
        self.parts: list[str] = []
        self._in_title = False
        self._preformatted = 0
        self._skipped_tag: str | None = None
        self._skipped_depth = 0
        """Open elements with the name of the skipped one; other elements may lack their ends."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped_tag is not None:
            self._skipped_depth += tag == self._skipped_tag
            return
        attributes = dict(attrs)
        if tag == "html":
            language = attributes.get("lang") or attributes.get("xml:lang")
            self.language = language.partition("-")[0].lower() if language else None
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _SKIPPED or _is_navigation(attributes):
            self._skipped_tag, self._skipped_depth = tag, 1
            self.parts.append("\n\n" if tag in _BLOCKS else "")
        else:
            self._open(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped_tag is not None:
            self._skipped_depth -= tag == self._skipped_tag
            if not self._skipped_depth:
                self._skipped_tag = None
            return
        if tag == "title":
            self._in_title = False
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
            self.parts.append("\n\n")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.parts.append("\n\n")
        elif tag in _CELLS:
            self.parts.append(" | ")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self._skipped_tag is None:
            self.parts.append(data if self._preformatted else self._flow(data))

    def _flow(self, data: str) -> str:
        """Return text with single blanks, and with none at the beginning of a line."""
        single = re.sub(r"\s+", " ", data)
        return single.lstrip() if not self.parts or self.parts[-1].endswith(("\n", " ")) else single

    def _open(self, tag: str) -> None:
        if tag == "pre":
            self._preformatted += 1
        if tag in _BLOCKS:
            self.parts.append("\n\n")
        elif tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]}")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in {"br", "tr"}:
            self.parts.append("\n")


def _is_navigation(attributes: dict[str, str | None]) -> bool:
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}".split()
    return attributes.get("role") in _SKIPPED_ROLES or not _SKIPPED_NAMES.isdisjoint(names)


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _tidy(text: str) -> str:
    """Remove what layout leaves: blanks at the ends of lines, bullets without text, more than one empty line."""
    lines = (line.rstrip() for line in text.replace("\x00", "").split("\n"))
    kept = "\n".join("" if line.strip() in {"-", "|", "#"} else line for line in lines)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()
