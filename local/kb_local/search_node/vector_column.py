"""The vectors of one path, by row, and how similar they are to a query."""

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node.values import Vector
from kb_local.search_node.vector_definitions import VectorField

# Vectors lie in blocks that never move: growing copies nothing, and a search in another thread keeps what it reads.
BLOCK_ROWS = 1024
# From this share of a block on, scoring all of it costs less than gathering the wanted rows first.
DENSE_SHARE = 0.5


class VectorColumn:
    """float32 vectors compared exactly: there is no approximation whose loss a test would have to expect."""

    def __init__(self, field: VectorField) -> None:
        self.field = field
        self._blocks: list[NDArray[np.float32]] = []
        self._present = np.zeros(0, bool)

    def present(self, rows: int) -> NDArray[np.bool_]:
        """Return for each of the first `rows` rows whether it has a vector."""
        present = np.zeros(rows, bool)
        known = self._present[:rows]
        present[: len(known)] = known
        return present

    def put(self, row: int, vector: Vector | None) -> None:
        """Store the vector of a row, or nothing when it can't be indexed: a search then never finds the row."""
        prepared = None if vector is None else self._prepare(vector)
        while row >= len(self._present):
            self._blocks.append(np.zeros((BLOCK_ROWS, self.field.dimensions), np.float32))
            self._present = np.concatenate([self._present, np.zeros(BLOCK_ROWS, bool)])
        if prepared is not None:
            self._blocks[row // BLOCK_ROWS][row % BLOCK_ROWS] = prepared
        self._present[row] = prepared is not None

    def drop(self, row: int) -> None:
        self._present[row] = False

    def _prepare(self, vector: Vector) -> Vector | None:
        if len(vector) != self.field.dimensions or not np.isfinite(vector).all():
            return None
        return vector if self.field.similarity != "cosine" else unit(vector)

    def scores(self, rows: NDArray[np.intp], query: Vector) -> NDArray[np.float32]:
        """Return the score of each of `rows`, which are sorted; in any thread, while other rows change."""
        scores = np.empty(len(rows), np.float32)
        if self.field.similarity == "cosine" and (direction := unit(query)) is not None:
            query = direction
        bounds = np.searchsorted(rows, np.arange(len(self._blocks) + 1) * BLOCK_ROWS)
        for number, block in enumerate(self._blocks[: len(bounds) - 1]):
            low, high = bounds[number], bounds[number + 1]
            if low == high:
                continue
            within = rows[low:high] - number * BLOCK_ROWS
            if high - low > DENSE_SHARE * BLOCK_ROWS:
                scores[low:high] = self._score(block, query)[within]
            else:
                scores[low:high] = self._score(block[within], query)
        return scores

    def _score(self, vectors: NDArray[np.float32], query: Vector) -> NDArray[np.float32]:
        """Compute the scores by Lucene's functions, as Atlas does."""
        if self.field.similarity == "euclidean":
            difference = vectors - query
            scores: NDArray[np.float32] = 1 / (1 + np.einsum("ij,ij->i", difference, difference))
        else:
            # With cosine both sides have length 1.
            scores = np.maximum((1 + vectors @ query) / 2, 0)
        return scores


def unit(vector: Vector) -> Vector | None:
    """Return the vector scaled to length 1; None for a zero vector, which has no direction."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return None if length == 0 else (vector / length).astype(np.float32)
