"""Reads HTML files as Markdown, without what a browser doesn't show and without navigation."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, WebLinks
from kb_client.files.formats.encodings import decode_text
from kb_client.files.formats.markdown import parse_date

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_DECLARED: Final = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_-]{2,40})""", re.IGNORECASE
)
_DECLARED_WITHIN_BYTES: Final = 4_096
_NOT_TEXT: Final = ("script", "style", "noscript", "template", "svg", "iframe", "object", "nav", "form", "head")
_AROUND_THE_TEXT: Final = ("footer", "aside", "[role=banner]", "[role=contentinfo]", "header:not(:has(h1))")
_MAX_LINKS: Final = 2_000
_MAX_LINK_CHARACTERS: Final = 2_000
_DATES: Final = ("article:published_time", "date", "dc.date", "dcterms.date")


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the main part of a page in Markdown."""
    declared = _DECLARED.search(data[:_DECLARED_WITHIN_BYTES])
    markup, warnings = decode_text(data, declared=declared[1].decode() if declared else None)
    return extract_markup(markup, warnings, web_links=options.web_links)


def extract_markup(markup: str, warnings: tuple[str, ...] = (), *, web_links: bool = False) -> Extraction:
    """Return the main part of a page, with its title and date, and, if asked for, its links.

    Raises:
        UnreadableDocument: its elements are nested too deeply.
    """
    from bs4 import BeautifulSoup

    try:
        # lxml refuses a declaration of the encoding in text that is decoded already.
        soup = BeautifulSoup(re.sub(r"\A\s*<\?xml[^>]*\?>", "", markup), "lxml")
        title, date = _find_title(soup), _find_date(soup)
        links = _find_links(soup) if web_links else None
        text = _to_markdown(soup, around=_AROUND_THE_TEXT if web_links else ())
        return Extraction(text, title=title, date=date, warnings=warnings, web_links=links)
    except RecursionError:
        raise UnreadableDocument("its elements are nested too deeply", "save it as text") from None


def _to_markdown(soup: "BeautifulSoup", *, around: tuple[str, ...]) -> str:
    """Return a page in Markdown; of a page that marks no main part, without the elements that `around` selects."""
    from markdownify import ATX, MarkdownConverter

    for element in soup(_NOT_TEXT):
        element.decompose()
    for element in soup.select("[hidden], [aria-hidden=true], a.headerlink"):
        element.decompose()
    if around and _main_part(soup) is soup:
        for element in soup.select(", ".join(around)):
            element.decompose()
    # The targets of links and images lead nowhere from a passage, and cost tokens.
    converter = MarkdownConverter(
        heading_style=ATX, bullets="-", strip=["a", "img"], escape_asterisks=False, escape_underscores=False
    )
    markdown = converter.convert_soup(_main_part(soup))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t\xa0]+$", "", markdown, flags=re.MULTILINE)).strip()


def _main_part(soup: "BeautifulSoup") -> "Tag":
    """Return the element that the page marks as its main part, if it marks one."""
    marked = soup.select("main, [role=main]") or soup.find_all("article")
    return marked[0] if len(marked) == 1 else soup


def _find_title(soup: "BeautifulSoup") -> str | None:
    for name in ("title", "h1"):
        element = soup.find(name)
        if element and (title := " ".join(element.get_text(" ").split())):
            return title
    return None


def _find_date(soup: "BeautifulSoup") -> datetime | None:
    for element in soup.find_all("meta"):
        name = str(element.get("property") or element.get("name") or "").lower()
        if name in _DATES and (date := parse_date(str(element.get("content") or ""))):
            return date
    return None


def _find_links(soup: "BeautifulSoup") -> WebLinks:
    """Return the links of a page, as far as they are short; of a page with more than 2,000 the first."""
    asked = {word for robots in soup.select("meta[name=robots i]") for word in _words_of(robots.get("content"))}
    links = dict.fromkeys(
        href for anchor in soup.select("a[href]:not([rel~=nofollow])") if (href := _address_of(anchor.get("href")))
    )
    base, canonical = soup.select_one("base[href]"), soup.select_one("link[rel~=canonical][href]")
    return WebLinks(
        links=tuple(links)[:_MAX_LINKS],
        base=_address_of(base.get("href")) if base else None,
        canonical=_address_of(canonical.get("href")) if canonical else None,
        index=not asked & {"noindex", "none"},
        follow=not asked & {"nofollow", "none"},
    )


def _words_of(content: object) -> list[str]:
    return re.split(r"[\s,]+", str(content or "").lower())


def _address_of(value: object) -> str | None:
    """Return the value of an attribute; None if it is no address or only a part of the same page."""
    address = str(value or "").strip()
    return address if address and len(address) <= _MAX_LINK_CHARACTERS and not address.startswith("#") else None
