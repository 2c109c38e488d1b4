"""Neighbours of hits: which to read, how they stand beside the hits, and how their texts become one. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_GAP: Final = "\n"
"""Between pieces that do not overlap; what stood there in the document was whitespace."""


class ChunkPosition(NamedTuple):
    """Position of a chunk: the KB, the document and the index in it."""

    kb_id: str
    document_id: str
    chunk_index: int

    def moved(self, by: int) -> "ChunkPosition":
        return self._replace(chunk_index=self.chunk_index + by)


class ChunkRange(NamedTuple):
    """Chunks of one document that follow each other; both ends included."""

    kb_id: str
    document_id: str
    first: int
    last: int


def stretches(matches: Iterable[ChunkPosition], width: int) -> list[ChunkRange]:
    """Give what must be read to have `width` neighbours on either side of every match, nothing of it twice."""
    wanted: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for match in matches:
        wanted[match.kb_id, match.document_id].update(
            range(max(match.chunk_index - width, 0), match.chunk_index + width + 1)
        )
    found: list[ChunkRange] = []
    for (kb_id, document_id), indexes in sorted(wanted.items()):
        for index in sorted(indexes):
            if found and found[-1] == (kb_id, document_id, found[-1].first, index - 1):
                found[-1] = found[-1]._replace(last=index)
            else:
                found.append(ChunkRange(kb_id, document_id, index, index))
    return found


def groups(
    matches: Sequence[ChunkPosition], neighbours: Collection[ChunkPosition], width: int
) -> list[list[ChunkPosition]]:
    """Put matches and their neighbours together: each place once, no group across documents or a gap.

    Args:
        matches: by rank, the best first.
        neighbours: what could be read around them; what is farther than `width` from every match is left out.
    Returns:
        Groups by the best rank in them; each in the order of its document.
    """
    rank = {match: number for number, match in enumerate(matches)}
    near = {match.moved(by) for match in matches for by in range(-width, width + 1)}
    chosen = sorted(set(rank) | (set(neighbours) & near))
    found: list[list[ChunkPosition]] = []
    for place in chosen:
        if found and width and found[-1][-1].moved(1) == place:
            found[-1].append(place)
        else:
            found.append([place])
    # What a gap parts from its match belongs to nothing.
    best = [(min((rank[place] for place in group if place in rank), default=None), group) for group in found]
    return [group for _, group in sorted((number, group) for number, group in best if number is not None)]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk's text; `start` and `end` are its offsets in the document."""

    text: str
    start: int
    end: int


def merged(pieces: Sequence[Piece]) -> str:
    """Give the pieces of one group as one text, for a model: what two of them share is said once.

    Args:
        pieces: in the order of their document.
    """
    text, end = "", 0
    for piece in pieces:
        shared = end - piece.start
        if text and shared > 0 and text.endswith(piece.text[:shared]):
            text += piece.text[shared:]
        else:
            text += (_GAP if text else "") + piece.text
        end = max(end, piece.end)
    return text
