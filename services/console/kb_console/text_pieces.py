"""Texts in pieces, so that a page can show where passages, and words of a query, begin and end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kb_contracts.api.search import Highlight


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str
    chunks: tuple[int, ...]
    """Numbers of the passages that contain the piece; several where passages overlap."""


@dataclass(frozen=True, slots=True)
class MarkedPiece:
    text: str
    is_marked: bool


def cut_at_chunks(text: str, spans: Sequence[tuple[int, int, int]]) -> list[TextPiece]:
    """Cut a text wherever a passage begins or ends.

    Args:
        text: the text.
        spans: number, start and end of each passage, in order of the starts.
    """
    edges = {0, len(text)}
    for _, start, end in spans:
        edges |= {min(start, len(text)), min(end, len(text))}
    cuts = sorted(edges)
    pieces = []
    first = 0
    for start, end in pairwise(cuts):
        while first < len(spans) and spans[first][2] <= start:
            first += 1
        inside = []
        for number, begins, ends in spans[first:]:
            if begins > start:
                break
            if ends >= end:
                inside.append(number)
        pieces.append(TextPiece(text[start:end], tuple(inside)))
    return pieces


def mark_words(text: str, highlights: Iterable[Highlight]) -> list[MarkedPiece]:
    """Cut a text at the words of a query, which are in their order and do not overlap."""
    pieces, at = [], 0
    for highlight in highlights:
        if at < highlight.start:
            pieces.append(MarkedPiece(text[at : highlight.start], is_marked=False))
        pieces.append(MarkedPiece(text[highlight.start : highlight.end], is_marked=True))
        at = highlight.end
    if at < len(text):
        pieces.append(MarkedPiece(text[at:], is_marked=False))
    return pieces
