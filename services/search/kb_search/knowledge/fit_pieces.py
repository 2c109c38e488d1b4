"""Keeps as many pieces as fit into an answer. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kb_contracts.knowledge.retrieval import RetrievedPiece

MAX_CHARACTERS: Final = 1_000_000
"""Limit of the characters of all pieces of an answer. One piece has at most 200,000."""


@dataclass(frozen=True, slots=True)
class FittingPieces:
    """Whole pieces that fit."""

    pieces: Sequence[RetrievedPiece]
    omitted_count: int


def fit_pieces(pieces: Sequence[RetrievedPiece], *, max_characters: int = MAX_CHARACTERS) -> FittingPieces:
    """Keep pieces, best first, as long as they fit; none is cut, and none that fits is left out for a longer one."""
    kept: list[RetrievedPiece] = []
    left = max_characters
    for piece in pieces:
        if len(piece.content) <= left:
            kept.append(piece)
            left -= len(piece.content)
    return FittingPieces(kept, len(pieces) - len(kept))
