"""Reads sitemaps, which anyone may have written: bounded, without entities and without anything that is elsewhere."""

import zlib
from typing import Final
from xml.parsers import expat

MAX_SITEMAP_BYTES: Final = 10_000_000
"""Length of a sitemap, also after it was unpacked."""
_MAX_LOCATIONS: Final = 10_000
_MAX_LOCATION_CHARACTERS: Final = 2_000
_GZIP: Final = b"\x1f\x8b"


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
        UnusableSitemap: it is not XML, too large, or declares a document type.
    """
    reader = _SitemapReader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(_unpacked(body), True)
    except expat.ExpatError:
        raise UnusableSitemap("it is not XML") from None
    except _Enough:
        pass
    return reader.sitemap


class _Enough(Exception):
    """The rest of a sitemap is not needed."""


class _SitemapReader:
    def __init__(self) -> None:
        self.sitemap = Sitemap()
        self._path: list[str] = []
        self._location: list[str] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name.rpartition(" ")[2])
        if self._path[-1] == "loc":
            self._location = []

    def text(self, characters: str) -> None:
        if self._path[-1:] == ["loc"]:
            self._location.append(characters)

    def end(self, _name: str) -> None:
        match self._path:
            case ["urlset", "url", "loc"]:
                self._add(self.sitemap.pages)
            case ["sitemapindex", "sitemap", "loc"]:
                self._add(self.sitemap.sitemaps)
        self._path.pop()

    def _add(self, locations: list[str]) -> None:
        location = "".join(self._location).strip()
        if 0 < len(location) <= _MAX_LOCATION_CHARACTERS:
            locations.append(location)
        if len(locations) >= _MAX_LOCATIONS:
            raise _Enough


def _refuse_doctype(*_declaration: object) -> None:
    raise UnusableSitemap("it declares a document type")


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
