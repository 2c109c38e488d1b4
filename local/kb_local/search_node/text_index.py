"""One built search index of type `search` in memory: what is indexed of each document, and the search over it."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kb_local.search_node.analyzers import Terms
from kb_local.search_node.clause_count import check_clause_count
from kb_local.search_node.clauses import Bound, FieldPath, TextPath
from kb_local.search_node.hits import Hits
from kb_local.search_node.indexed_values import IndexedValues, TextKey
from kb_local.search_node.matching import Matches, matches
from kb_local.search_node.row_lists import Mask, RowNumbers, numbers, snapshot
from kb_local.search_node.text_definitions import TextDefinition
from kb_local.search_node.text_field import TextField
from kb_local.search_node.text_query import SortKey, TextQuery
from kb_local.search_node.ties import key_of, tie_order
from kb_local.search_node.value_field import PathRows, ValueField
from kb_local.search_node.values import FilterKey

# Rows of former versions are forgotten when they are more than the others, and worth the work.
FEWEST_FORGOTTEN = 1024
NO_VALUES = ValueField()


class TextAnswer(NamedTuple):
    """`matches` counts all documents that match, of which `hits` may be the first only."""

    hits: Hits
    matches: int
    has_index: bool = True
    """False if there is no index of that name."""


class TextIndex:
    """Changed and searched by one thread, the event loop's: a search takes about a millisecond."""

    def __init__(self, definition: TextDefinition) -> None:
        self.definition = definition
        self._values = IndexedValues(definition)
        self._texts: dict[TextKey, TextField] = {}
        self._fields: dict[str, ValueField] = {}
        self._paths = PathRows()
        self._row_of: dict[bytes, int] = {}
        self._ids: list[Any] = []
        self._ties = numbers()
        self._live = bytearray()

    def __len__(self) -> int:
        return len(self._row_of)

    def upsert(self, document: Mapping[str, Any]) -> None:
        """Index a document again, in a row after all others."""
        self.remove(document["_id"])
        row, identity = len(self._ids), key_of(document["_id"])
        self._ids.append(document["_id"])
        self._ties.append(tie_order(identity))
        self._live.append(True)
        self._row_of[identity] = row
        found = self._values.find_values(document)
        for key, terms in found.terms.items():
            if key not in self._texts:
                self._texts[key] = TextField(norms=self._values.settings[key].norms)
            self._texts[key].add(row, terms)
        for path, keys in found.keys.items():
            if path not in self._fields:
                self._fields[path] = ValueField()
            self._fields[path].add(row, keys)
        self._paths.add(row, found.paths)

    def remove(self, document_id: Any) -> None:
        row = self._row_of.pop(key_of(document_id), None)
        if row is None:
            return
        self._live[row] = False
        self._ids[row] = None
        for text in self._texts.values():
            text.drop(row)
        for field in self._fields.values():
            field.drop(row)
        if len(self._ids) - len(self._row_of) > max(FEWEST_FORGOTTEN, len(self._row_of)):
            self._compact()

    def search(self, query: TextQuery, *, most: int | None = None) -> TextAnswer:
        """Return the matching documents as of now, the best first; at most the first `most`.

        Raises:
            CommandError: the query does not fit the definition.
        """
        for key in query.sort:
            if key.path is not None:
                self._values.check_sortable(key.path)
        live = self._live_mask()
        searched = _Searched(live, self.definition, self._values, self._texts, self._fields, self._paths)
        check_clause_count(query.clause, searched)
        found = matches(query.clause, searched)
        rows = np.flatnonzero(found.mask & live)
        rows = rows[np.argsort(snapshot(self._ties)[rows], kind="stable")]
        ordered = (
            self._by_score(rows, found, most=most)
            if not query.sort
            else self._sorted(rows, found, sort=query.sort)[:most]
        )
        return TextAnswer(Hits([self._ids[row] for row in ordered], found.scores[ordered].tolist()), len(rows))

    def _live_mask(self) -> Mask:
        return np.frombuffer(bytes(self._live), bool)

    def _by_score(self, rows: RowNumbers, found: Matches, *, most: int | None) -> RowNumbers:
        scores = found.scores[rows]
        if most is not None and 0 < most < len(rows):
            # All that score like the last one are kept: their order decides which of them are wanted.
            least = np.partition(scores, len(rows) - most)[len(rows) - most]
            rows = rows[scores >= least]
            scores = found.scores[rows]
        return rows[np.argsort(-scores, kind="stable")][:most]

    def _sorted(self, rows: RowNumbers, found: Matches, *, sort: Sequence[SortKey]) -> RowNumbers:
        ordered = rows.tolist()
        for key in reversed(sort):
            if key.path is None:
                ordered.sort(key=found.scores.__getitem__, reverse=key.descending)
                continue
            field = self._fields.get(key.path, NO_VALUES)
            orders = {row: field.sort_value(row, descending=key.descending) for row in ordered}
            ordered.sort(key=orders.__getitem__, reverse=key.descending)
        return np.asarray(ordered, np.intp)

    def _compact(self) -> None:
        """Give the rows that count new numbers without gaps, and forget all others."""
        kept = np.flatnonzero(self._live_mask())
        new_number = np.full(len(self._ids), -1, np.int64)
        new_number[kept] = np.arange(len(kept))
        for text in self._texts.values():
            text.compact(kept)
        self._texts = {key: text for key, text in self._texts.items() if text.has_any()}
        for field in self._fields.values():
            field.compact(new_number)
        self._paths.compact(new_number)
        self._ids = [self._ids[row] for row in kept]
        self._ties = array("I", [self._ties[row] for row in kept])
        self._live = bytearray(b"\x01" * len(kept))
        self._row_of = {key: int(new_number[row]) for key, row in self._row_of.items()}


@dataclass(frozen=True, slots=True)
class _Searched:
    """The parts of an index during one search."""

    live: Mask
    definition: TextDefinition
    values: IndexedValues
    texts: Mapping[TextKey, TextField]
    fields: Mapping[str, ValueField]
    paths: PathRows

    def text_fields(self, path: TextPath) -> Sequence[tuple[TextField, Callable[[str], Terms]]]:
        if isinstance(path, FieldPath):
            wanted = [TextKey(path.name, path.multi)]
        else:
            wanted = [key for key in self.texts if key.multi is None and path.matches(key.path)]
        return [(self.texts[key], self._query_analyzer(key)) for key in wanted if key in self.texts]

    def rows_with_value(self, path: str, keys: Iterable[FilterKey]) -> Mask:
        keys = [*keys]
        self.values.check_comparable(path, keys)
        asked = self.values.as_stored(path, keys)
        return self.fields.get(path, NO_VALUES).rows_with_value(asked, count=len(self.live))

    def rows_in_range(self, path: str, lower: Bound | None, *, upper: Bound | None) -> Mask:
        self.values.check_comparable(path, [bound.key for bound in (lower, upper) if bound is not None])
        lower, upper = self.values.bound_as_stored(path, lower), self.values.bound_as_stored(path, upper)
        return self.fields.get(path, NO_VALUES).rows_in_range(lower, upper, count=len(self.live))

    def rows_with_path(self, path: str) -> Mask:
        return self.paths.rows_with_path(path, count=len(self.live))

    def _query_analyzer(self, key: TextKey) -> Callable[[str], Terms]:
        return self.definition.query_analyzer(self.values.settings[key]).terms
