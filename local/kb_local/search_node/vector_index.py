"""One built vector search index in memory: what is indexed of each document, and the search over it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node.errors import search_error
from kb_local.search_node.hits import NO_HITS, Hits
from kb_local.search_node.postings import Postings
from kb_local.search_node.query import VectorQuery
from kb_local.search_node.rows import Rows
from kb_local.search_node.ties import key_of, tie_order
from kb_local.search_node.values import Vector, value_at, vector_of
from kb_local.search_node.vector_column import VectorColumn
from kb_local.search_node.vector_definitions import VectorDefinition

# Up to about a millisecond of arithmetic a thread costs more than it frees.
INLINE_FLOATS = 1_000_000


class VectorIndex:
    """Changed by one thread (the event loop's); searches may run in others."""

    def __init__(self, definition: VectorDefinition) -> None:
        self.definition = definition
        self._columns = {path: VectorColumn(field) for path, field in definition.vectors.items()}
        self._postings = Postings(definition.filters)
        self._rows = Rows()
        self._row_of: dict[bytes, int] = {}
        self._ids: list[Any] = []
        self._ties: list[int] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def upsert(self, document: Mapping[str, Any]) -> None:
        """Index a document again, always in another row: the one before may be in use by a search."""
        self.remove(document["_id"])
        row = self._rows.allocate()
        if row == len(self._ids):
            self._ids.append(None)
            self._ties.append(0)
        key = key_of(document["_id"])
        self._ids[row], self._ties[row] = document["_id"], tie_order(key)
        self._row_of[key] = row
        for path, column in self._columns.items():
            column.put(row, vector_of(value_at(document, path)))
        self._postings.add(row, document)

    def remove(self, document_id: Any) -> None:
        row = self._row_of.pop(key_of(document_id), None)
        if row is None:
            return
        for column in self._columns.values():
            column.drop(row)
        self._postings.remove(row)
        self._rows.release(row)

    async def search(self, query: VectorQuery) -> Hits:
        """Return the `query.limit` most similar documents as of now.

        Raises:
            CommandError: the query does not fit the definition.
        """
        column = self._column_for(query)
        with self._rows.reading():
            count = self._rows.count
            wanted = column.present(count)
            if query.filter is not None:
                wanted &= self._postings.mask(query.filter, rows=count)
            rows = np.flatnonzero(wanted)
            if len(rows) * column.field.dimensions <= INLINE_FLOATS:
                return self._rank(column, rows, vector=query.vector, limit=query.limit)
            return await asyncio.to_thread(self._rank, column, rows, vector=query.vector, limit=query.limit)

    def _column_for(self, query: VectorQuery) -> VectorColumn:
        column = self._columns.get(query.path)
        if column is None:
            raise search_error(f"{query.path} is not indexed as vector")
        dimensions = column.field.dimensions
        if len(query.vector) != dimensions:
            raise search_error(
                f"vector field is indexed with {dimensions} dimensions but queried with {len(query.vector)}"
            )
        if column.field.similarity == "cosine" and not query.vector.any():
            raise search_error("Cosine similarity cannot be calculated against a zero vector.")
        return column

    def _rank(self, column: VectorColumn, rows: NDArray[np.intp], *, vector: Vector, limit: int) -> Hits:
        if not len(rows):
            return NO_HITS
        scores = column.scores(rows, vector)
        best = np.arange(len(scores))
        if limit < len(scores):
            best = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
        ties = np.fromiter((self._ties[row] for row in rows[best]), np.int64, len(best))
        best = best[np.lexsort((ties, -scores[best]))][:limit]
        return Hits([self._ids[row] for row in rows[best]], [float(score) for score in scores[best]])
