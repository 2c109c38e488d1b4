"""Neighbours of matches: which chunks to read, how to group them with the matches, how to merge their texts. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_GAP: Final = "\n"
"""Text between pieces that do not overlap. In the document it was white space."""


class ChunkPosition(NamedTuple):
    """Position of a chunk: the KB, the document and the index in it."""

    kb_id: str
    document_id: str
    chunk_index: int

    def moved(self, by: int) -> "ChunkPosition":
        return self._replace(chunk_index=self.chunk_index + by)


class ChunkRange(NamedTuple):
    """Consecutive chunks of one document, from `first` to `last`, both included."""

    kb_id: str
    document_id: str
    first: int
    last: int


def neighbour_ranges(matches: Iterable[ChunkPosition], width: int) -> list[ChunkRange]:
    """Return the chunks to read for `width` neighbours on either side of every match, as ranges without overlaps."""
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


def group_with_neighbours(
    matches: Sequence[ChunkPosition], neighbours: Collection[ChunkPosition], width: int
) -> list[list[ChunkPosition]]:
    """Group matches with their neighbours: each chunk once, each group a range of consecutive chunks of one document.

    Args:
        matches: Matches by rank, best first.
        neighbours: Chunks that could be read. Those farther than `width` from every match are left out.

    Returns:
        Groups by the best rank in each; a group is in the order of its document.
    """
    rank = {match: number for number, match in enumerate(matches)}
    near = {match.moved(by) for match in matches for by in range(-width, width + 1)}
    chosen = sorted(set(rank) | (set(neighbours) & near))
    found: list[list[ChunkPosition]] = []
    for position in chosen:
        if found and width and found[-1][-1].moved(1) == position:
            found[-1].append(position)
        else:
            found.append([position])
    # A group without a match is left out: a missing chunk separates its neighbours from their match.
    best = [(min((rank[position] for position in group if position in rank), default=None), group) for group in found]
    return [group for _, group in sorted((number, group) for number, group in best if number is not None)]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk's text; `start` and `end` are its offsets in the document."""

    text: str
    start: int
    end: int


def merge_pieces(pieces: Sequence[Piece]) -> str:
    """Merge the pieces of one group into one text. Text that two pieces share appears once.

    Args:
        pieces: Pieces in the order of their document.
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
