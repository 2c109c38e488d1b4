"""Finds what a page says to a browser beside its text: where it leads by itself, and what it needs. Pure.

Bounded expressions find it: this process must not parse what a stranger has written.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Final

_LOOKED_AT_BYTES: Final = 1_000_000
MAX_REFRESH_DELAY_S: Final = 30
"""Seconds after which a page may lead to another one by itself, and still be a redirect: more is a slide show."""
_MAX_FRAMES: Final = 20
_NO_MARKUP: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|template|textarea)\b[^>]{0,4000}>.*?(?:</\1|\Z)", re.DOTALL | re.IGNORECASE
)
_SCRIPT: Final = re.compile(r"<script\b", re.IGNORECASE)
_TAG: Final = re.compile(r"<(/?)(meta|frame|iframe|input|noscript)(?=[\s/>])([^>]{0,4000})>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    r"""([a-zA-Z-]{1,40})\s{0,20}=\s{0,20}(?:"([^"]{0,4000})"|'([^']{0,4000})'|([^\s"'>]{1,4000}))"""
)
_REFRESH: Final = re.compile(
    r"""\s{0,20}(\d{0,9})(?P<fraction>\.[\d.]{0,20})?(?:\s{0,20}[;,]|\s)\s{0,20}(?:url\s{0,20}=\s{0,20})?"""
    r"""(?:"(?P<double>[^"]{1,2000})|'(?P<single>[^']{1,2000})|(?P<plain>[^"'].{0,2000}))""",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PageSigns:
    refresh: str | None = None
    """Address that the page leads to by itself, as it is written."""
    frames: tuple[str, ...] = ()
    """Addresses of what it shows in frames, as they are written."""
    is_frameset: bool = False
    """True if it consists of frames."""
    has_scripts: bool = False
    asks_for_password: bool = False
    robots: Mapping[str, str] | None = None
    """Content of the meta elements, by name in lower case: one may be named after a crawler."""


def find_page_signs(body: bytes, headers: Mapping[str, str]) -> PageSigns:
    """Return the signs of a page. What it says to browsers without scripts does not count: it is mostly a complaint.

    Args:
        body: contents of the page.
        headers: of the answer; names are in lower case.
    """
    markup = _decode(body[:_LOOKED_AT_BYTES])
    metas: dict[str, str] = {}
    refresh = read_refresh(headers.get("refresh", ""))
    frames: list[str] = []
    is_frameset = asks_for_password = False
    for name, attributes in _elements(_NO_MARKUP.sub(" ", markup)):
        match name:
            case "meta":
                if attributes.get("http-equiv", "").strip().lower() == "refresh":
                    refresh = refresh or read_refresh(attributes.get("content", ""))
                elif named := attributes.get("name", "").strip().lower():
                    metas.setdefault(named, attributes.get("content", ""))
            case "input":
                asks_for_password = asks_for_password or attributes.get("type", "").strip().lower() == "password"
            case _:
                is_frameset = is_frameset or name == "frame"
                frames.append(attributes.get("src", "").strip())
    return PageSigns(
        refresh,
        tuple(dict.fromkeys(filter(None, frames)))[:_MAX_FRAMES],
        is_frameset=is_frameset,
        has_scripts=_SCRIPT.search(markup) is not None,
        asks_for_password=asks_for_password,
        robots=metas,
    )


def read_refresh(value: str) -> str | None:
    """Return where `0; url=/start` leads, in all forms that browsers take; None if it is the same page, or later."""
    found = _REFRESH.match(value)
    if found is None or (not found[1] and not found["fraction"]) or int(found[1] or 0) > MAX_REFRESH_DELAY_S:
        return None
    return (found["double"] or found["single"] or found["plain"]).strip() or None


def _elements(markup: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    without_scripts = 0
    for closes, name, attributes in _TAG.findall(markup):
        if name.lower() == "noscript":
            without_scripts += -1 if closes else 1
        elif not closes and without_scripts <= 0:
            yield (
                name.lower(),
                {key.lower(): unescape(one or two or three) for key, one, two, three in _ATTRIBUTE.findall(attributes)},
            )


def _decode(body: bytes) -> str:
    """Return the markup, whose names are ASCII whatever the encoding of the text is."""
    is_wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if is_wide else "utf-8", "replace")
