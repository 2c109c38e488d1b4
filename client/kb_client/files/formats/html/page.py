"""Reads HTML files as Markdown, as a browser shows them, and without navigation."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, WebLinks
from kb_client.files.formats.markdown import parse_date
from kb_client.files.formats.text.encodings import decode_text
from kb_client.files.titles import own_title

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARATION: Final = re.compile(rb"<meta\s([^>]*)>|<\?xml\s([^>]*)\?>", re.IGNORECASE)
_CHARSET: Final = re.compile(
    rb"""(?:^|[\s"'/;])(?:charset|encoding)\s*=\s*["']?\s*([^\s"'/>;?]{2,40})""", re.IGNORECASE
)
_NAMED_OTHERWISE: Final = re.compile(rb"""(?:^|\s)(?:name|property|itemprop)\s*=""", re.IGNORECASE)
_DECLARED_WITHIN_BYTES: Final = 8_192
_MAX_LINKS: Final = 2_000
_MAX_LINK_CHARACTERS: Final = 2_000
_DATES: Final = ("article:published_time", "date", "dc.date", "dcterms.date")


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of a page in Markdown.

    Raises:
        UnreadableDocument: it shows nothing without its scripts, and its links are not wanted either.
    """
    markup, warnings = decode_markup(data)
    extraction = extract_markup(markup, warnings, web_links=options.web_links)
    if not extraction.text and not options.web_links and "<script" in markup.lower():
        raise UnreadableDocument("it shows its text by scripts", "open it in a browser, and save or print it there")
    return extraction


def decode_markup(data: bytes, *, named: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return a page with its letters decoded, and what had to be assumed.

    Args:
        data: the page.
        named: encoding that the sender of the page names, which counts more than what the page says.
    """
    return decode_text(data, declared=named or _find_declared(data[:_DECLARED_WITHIN_BYTES]))


def extract_markup(
    markup: str, warnings: tuple[str, ...] = (), *, web_links: bool = False, of_mail: bool = False
) -> Extraction:
    """Return the text of a page, with its title and date, and, if asked for, its links.

    Args:
        markup: the page.
        warnings: what had to be assumed before.
        web_links: whether its links are wanted.
        of_mail: whether a mail program shows it, in which nothing that its style sheets hide can be opened.

    Raises:
        UnreadableDocument: its elements are nested too deeply.
    """
    from kb_client.files.formats.html.protected_addresses import show_addresses
    from kb_client.files.formats.html.tables import make_tables_plain
    from kb_client.files.formats.html.to_markdown import to_markdown
    from kb_client.files.formats.html.tree import parse_html
    from kb_client.files.formats.html.visibility import keep_shown, keep_text

    try:
        soup = parse_html(markup)
        title, date = _find_title(soup), _find_date(soup)
        links = _find_links(soup) if web_links else None
        keep_shown(soup, of_mail=of_mail)
        show_addresses(soup)
        element = keep_text(soup, of_site=web_links)
        make_tables_plain(soup)
        return Extraction(to_markdown(element), title=title, date=date, warnings=warnings, web_links=links)
    except RecursionError:
        raise UnreadableDocument("its elements are nested too deeply", "save it as text") from None


def _find_declared(beginning: bytes) -> str | None:
    """Return the encoding that a page names for itself. Descriptions and comments may speak of encodings, too."""
    for found in _DECLARATION.finditer(_COMMENT.sub(b"", beginning)):
        attributes = found[1] or found[2]
        if _NAMED_OTHERWISE.search(attributes):
            continue
        if charset := _CHARSET.search(attributes):
            return charset[1].decode("ascii", "replace")
    return None


def _find_title(soup: "BeautifulSoup") -> str | None:
    named, heading = (_one_line_of(soup.find(name)) for name in ("title", "h1"))
    if named == heading:
        # A reader sees it, so no template wrote it.
        return named or None
    return own_title(named) or own_title(heading)


def _one_line_of(element: "Tag | None") -> str:
    return "" if element is None else " ".join(element.get_text(" ").split())


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
        href
        for anchor in soup.select(":is(a, area)[href]:not([rel~=nofollow])")
        if (href := _address_of(anchor.get("href")))
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
