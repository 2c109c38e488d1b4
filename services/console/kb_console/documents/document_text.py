"""Lays out the text of a document: a band for each chunk, with anchors where pages begin. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kb_contracts.api.document_texts import DocumentText
from kb_contracts.api.memberships import ChunkView


@dataclass(frozen=True, slots=True)
class BandPart:
    """A part of a band, which ends where a page or a repetition ends."""

    text: str
    page: int | None
    """Number of the page that begins here; None within a page."""
    is_repeated: bool
    """True if the chunk before contains this text as well."""


@dataclass(frozen=True, slots=True)
class TextBand:
    """Text of one chunk, or between two chunks."""

    chunk: ChunkView | None
    parts: tuple[BandPart, ...]


def lay_out(document: DocumentText, chunks: Sequence[ChunkView]) -> list[TextBand]:
    """Return the bands of consecutive chunks, in order of the text. White space between chunks has no band."""
    bands: list[TextBand] = []
    shown_to = document.start
    for chunk in chunks:
        if chunk.start > shown_to and (between := _cut(document, shown_to, chunk.start, repeated_to=shown_to)):
            bands.append(TextBand(None, between))
        bands.append(TextBand(chunk, _cut(document, chunk.start, chunk.end, repeated_to=shown_to)))
        shown_to = max(shown_to, chunk.end)
    return bands


def lay_out_without_text(chunks: Sequence[ChunkView]) -> list[TextBand]:
    """Return a band of each chunk with its own text, where the text of the document is another one by now."""
    return [TextBand(chunk, (BandPart(chunk.content, None, is_repeated=False),)) for chunk in chunks]


def pages_of(bands: Sequence[TextBand]) -> list[int]:
    """Return the pages that begin in the bands."""
    return [part.page for band in bands for part in band.parts if part.page is not None]


def _cut(document: DocumentText, start: int, end: int, *, repeated_to: int) -> tuple[BandPart, ...]:
    text = document.text[start - document.start : end - document.start]
    if not text.strip():
        return ()
    return tuple(_parts(document, text, start=start, repeated_to=repeated_to))


def _parts(document: DocumentText, text: str, *, start: int, repeated_to: int) -> Iterator[BandPart]:
    end = start + len(text)
    pages = {
        page.start: page.page for page in document.pages if start <= page.start < end and page.start >= repeated_to
    }
    edges = sorted({start, *pages, *([repeated_to] if start < repeated_to < end else [])})
    for begin, stop in zip(edges, [*edges[1:], end], strict=True):
        yield BandPart(text[begin - start : stop - start], pages.get(begin), is_repeated=begin < repeated_to)
