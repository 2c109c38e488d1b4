"""Puts columns after each other on pages whose file draws them line by line."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Final

from kb_client.files.formats.pdf.line_parts import LinePart

_LEAST_ROWS: Final = 5
_LEAST_CHARACTERS: Final = 20
"""Characters of the lines of a column at least, in the middle: cells of tables are shorter."""
_LEAST_FULL: Final = 0.6
"""Share of the lines of the left column that reach nearly to the gap."""
_NEARLY: Final = 0.25
"""Distance of such a line from the gap at most, as a share of the width of the column."""
_SAME_LINE: Final = 0.2


def order_columns(pieces: Sequence[LinePart]) -> list[LinePart]:
    """Return the lines in the order in which they are read, in parts where a line goes over two columns."""
    gap = _find_gap(pieces)
    if gap is None:
        return list(pieces)
    ordered: list[LinePart] = []
    left: list[LinePart] = []
    right: list[LinePart] = []
    for piece in pieces:
        parts = _part(piece, gap)
        if len(parts) == 1 and piece.left < gap < piece.right:
            ordered += [*left, *right, piece]
            left, right = [], []
            continue
        for part in parts:
            (left if part.right <= gap else right).append(part)
    return [*ordered, *left, *right]


def _find_gap(pieces: Sequence[LinePart]) -> float | None:
    """Return the middle of the gap between two columns of text, if lines of both follow each other."""
    rows = list(_rows(pieces))
    if len(rows) < _LEAST_ROWS:
        return None
    middle = median((left.right + right.left) / 2 for left, right in rows)
    parted = [(left, right) for left, right in rows if left.right < middle < right.left]
    crossing = sum(each.left < middle < each.right and len(_part(each, middle)) == 1 for each in pieces)
    if len(parted) < max(_LEAST_ROWS, crossing):
        return None
    lengths = (median(each.end - each.start for each in side) for side in zip(*parted, strict=True))
    begin = min(left.left for left, _ in parted)
    full = sum(middle - left.right <= _NEARLY * (middle - begin) for left, _ in parted)
    is_text = min(lengths) >= _LEAST_CHARACTERS and full >= _LEAST_FULL * len(parted)
    return middle if is_text else None


def _rows(pieces: Sequence[LinePart]) -> list[tuple[LinePart, LinePart]]:
    """Return what stands left and right of one gap in the middle of lines."""
    rows: list[tuple[LinePart, LinePart]] = []
    for piece, after in pairwise([*pieces, *pieces[-1:]]):
        if len(piece.gaps) == 1:
            left, right = _part(piece, (piece.gaps[0][1] + piece.gaps[0][2]) / 2)
            rows.append((left, right))
        elif abs(piece.base - after.base) < _SAME_LINE * piece.height and piece.right < after.left:
            rows.append((piece, after))
    return rows


def _part(piece: LinePart, middle: float) -> list[LinePart]:
    """Return what stands left and right of a place, if it is in a gap."""
    for number, (at, left, right) in enumerate(piece.gaps):
        if left < middle < right:
            return [
                replace(piece, end=at, right=left, gaps=piece.gaps[:number]),
                replace(piece, start=at, left=right, gaps=piece.gaps[number + 1 :]),
            ]
    return [piece]
