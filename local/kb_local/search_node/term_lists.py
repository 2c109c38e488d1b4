"""Rows of each term with its frequency: sorted runs that are merged as they grow, as in a log-structured tree.

A list of its own for each term would be searched faster, but made a hundred times slower: most terms are rare.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node.row_lists import RowNumbers

TermNumbers = NDArray[np.uint32]
Counts = NDArray[np.uint32]

_TERM_SHIFT = np.uint64(32)
# A run is merged into the one before it from this share of that one's length on.
_MERGED_SHARE = 0.5


class _SortedPairs(NamedTuple):
    """Pairs of a term and a row that has it, in ascending order, each once, and how often the row has it."""

    keys: NDArray[np.uint64]
    """The term in the upper half, the row in the lower one."""
    counts: Counts

    @classmethod
    def from_terms(cls, terms: TermNumbers, rows: RowNumbers) -> Self:
        ordered = np.sort(_keys(terms, rows))
        differs = np.ones(len(ordered), bool)
        differs[1:] = ordered[1:] != ordered[:-1]
        firsts = np.flatnonzero(differs)
        return cls(ordered[firsts], np.diff(firsts, append=len(ordered)).astype(np.uint32))

    def merged(self, newer: Self) -> "_SortedPairs":
        keys = np.concatenate([self.keys, newer.keys])
        # A stable sort knows the two ascending halves, and takes linear time.
        order = np.argsort(keys, kind="stable")
        return _SortedPairs(keys[order], np.concatenate([self.counts, newer.counts])[order])

    def find_term(self, term: int) -> tuple[RowNumbers, Counts]:
        begin, end = np.searchsorted(self.keys, np.array([term, term + 1], np.uint64) << _TERM_SHIFT)
        return self.keys[begin:end].astype(np.uint32).astype(np.intp), self.counts[begin:end]


class TermLists:
    """Rows come in ascending order."""

    def __init__(self) -> None:
        self._runs: list[_SortedPairs] = []

    def add(self, terms: TermNumbers, rows: RowNumbers) -> None:
        """Add the terms of new rows, each as often as the row has it, and beside each its row."""
        if not len(terms):
            return
        newest = _SortedPairs.from_terms(terms, rows)
        while self._runs and len(newest.keys) > _MERGED_SHARE * len(self._runs[-1].keys):
            newest = self._runs.pop().merged(newest)
        self._runs.append(newest)

    def find_term(self, term: int) -> tuple[RowNumbers, Counts]:
        """Return the rows that have a term, in ascending order, and how often each has it."""
        found = [run.find_term(term) for run in self._runs]
        if len(found) == 1:
            return found[0]
        rows = [np.zeros(0, np.intp), *(rows for rows, _ in found)]
        counts = [np.zeros(0, np.uint32), *(counts for _, counts in found)]
        return np.concatenate(rows), np.concatenate(counts)


def _keys(terms: TermNumbers, rows: RowNumbers) -> NDArray[np.uint64]:
    return terms.astype(np.uint64) << _TERM_SHIFT | rows.astype(np.uint64)
