"""Reads sitemaps, which anyone may have written: bounded, without entities and without anything that is elsewhere.

A sitemap is XML, a feed (RSS or Atom), or a text with an address in each line. XML that is not well-formed is read as
far as its addresses can be told.
"""

import codecs
import re
import zlib
from html import unescape
from typing import Final
from xml.parsers import expat

MAX_SITEMAP_BYTES: Final = 10_000_000
"""Length of a sitemap, also after it was unpacked."""
_MAX_LOCATIONS: Final = 10_000
_MAX_LOCATION_CHARACTERS: Final = 2_000
_GZIP: Final = b"\x1f\x8b"
_INDEX: Final = re.compile(r"<(?:\w{1,20}:)?sitemapindex[\s>]")
_LOCATION: Final = re.compile(
    r"<(?:\w{1,20}:)?(?:loc|link)>\s{0,200}(?:<!\[CDATA\[)?\s{0,200}([^<\]\s][^<\]]{0,2000}?)\s{0,200}(?:\]\]>)?\s{0,200}</"
)
_ADDRESS: Final = re.compile(r"https?://\S{1,2000}", re.IGNORECASE)


class UnusableSitemap(Exception):
    """A sitemap that can't be read. The message quotes nothing of it."""


class Sitemap:
    """Addresses in a sitemap, as they are written in it."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.sitemaps: list[str] = []


def parse_sitemap(body: bytes) -> Sitemap:
    """Return the pages, and the further sitemaps, that a sitemap names; the first 10,000 of a longer one.

    Raises:
        UnusableSitemap: it names no address in a known way, is too large, or declares entities.
    """
    content = _unpacked(body)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode()
    content = content.strip().removeprefix(codecs.BOM_UTF8).lstrip()
    if content.startswith(b"<"):
        return _parse_xml(content)
    return _parse_lines(content)


def _parse_xml(content: bytes) -> Sitemap:
    reader = _SitemapReader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _stop_at_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, _DoctypeFound):
        return _find_locations(content)
    except _Enough:
        pass
    return reader.sitemap


def _find_locations(content: bytes) -> Sitemap:
    """Return the addresses of XML that is not well-formed, such as one with a bare `&` or with text after its end."""
    markup = content.decode("utf-8", "replace")
    found = [unescape(each) for each in _LOCATION.findall(markup)[:_MAX_LOCATIONS]]
    if not found:
        raise UnusableSitemap("it is not XML")
    sitemap = Sitemap()
    (sitemap.sitemaps if _INDEX.search(markup) else sitemap.pages).extend(found)
    return sitemap


def _parse_lines(content: bytes) -> Sitemap:
    sitemap = Sitemap()
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    sitemap.pages = [line for line in lines if _ADDRESS.fullmatch(line)][:_MAX_LOCATIONS]
    if not sitemap.pages:
        raise UnusableSitemap("it is neither XML nor a list of addresses")
    return sitemap


class _Enough(Exception):
    """The rest of a sitemap is not needed."""


class _DoctypeFound(Exception):
    """It names a document type, by which a parser could be led anywhere."""


class _SitemapReader:
    def __init__(self) -> None:
        self.sitemap = Sitemap()
        self._path: list[str] = []
        self._location: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name.rpartition(" ")[2])
        if self._path[-1] in ("loc", "link"):
            self._location = []
        if self._path == ["feed", "entry", "link"] and attributes.get("rel", "alternate") == "alternate":
            self._location = [attributes.get("href", "")]

    def text(self, characters: str) -> None:
        if self._path[-1:] in (["loc"], ["link"]):
            self._location.append(characters)

    def end(self, _name: str) -> None:
        match self._path:
            case ["urlset", "url", "loc"] | [_, "channel", "item", "link"] | ["RDF", "item", "link"]:
                self._add(self.sitemap.pages)
            case ["feed", "entry", "link"]:
                self._add(self.sitemap.pages)
                self._location = []
            case ["sitemapindex", "sitemap", "loc"]:
                self._add(self.sitemap.sitemaps)
        self._path.pop()

    def _add(self, locations: list[str]) -> None:
        location = "".join(self._location).strip()
        if 0 < len(location) <= _MAX_LOCATION_CHARACTERS:
            locations.append(location)
        if len(locations) >= _MAX_LOCATIONS:
            raise _Enough


def _stop_at_doctype(*declared: object) -> None:
    if declared[-1]:
        raise UnusableSitemap("it declares entities")
    raise _DoctypeFound


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(_GZIP):
        return body
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = decompressor.decompress(body, MAX_SITEMAP_BYTES)
    except zlib.error:
        raise UnusableSitemap("it can't be unpacked") from None
    if decompressor.unconsumed_tail:
        raise UnusableSitemap(f"it unpacks to more than {MAX_SITEMAP_BYTES} bytes")
    return unpacked
