"""One analyzed field of a text index: which rows have a term, how often, and where."""

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node import bm25
from kb_local.search_node.analyzers import Terms
from kb_local.search_node.edit_distance import edit_distances
from kb_local.search_node.row_lists import Mask, RowNumbers, numbers, snapshot
from kb_local.search_node.sloppy_phrase import sloppy_frequency
from kb_local.search_node.term_lists import TermLists

# Stands for a position whose term was left out.
NO_TERM = 0
# Terms that are sorted at once if there is no search meanwhile; it takes a tenth of a second.
MOST_UNSORTED = 1_000_000


class ScoredRows(NamedTuple):
    """Rows that match, in ascending order, and how well."""

    rows: RowNumbers
    scores: NDArray[np.float32]


NONE_SCORED = ScoredRows(np.zeros(0, np.intp), np.zeros(0, np.float32))


class _TermNumbering(dict[str | None, int]):
    """Numbers terms as they come."""

    def __missing__(self, term: str | None) -> int:
        number = self[term] = len(self)
        return number


class TextField:
    """One analyzed field. Rows are only added; `live` says which of them count, also for the statistics.

    The terms of new rows are merged into the posting lists only before a search, which costs a
    fraction of merging row by row.

    Args:
        norms: whether the length of a text matters for its score.
    """

    def __init__(self, *, norms: bool = True) -> None:
        self._norms = norms
        self._vocabulary = _TermNumbering({None: NO_TERM})
        # By the number of a term, of the rows that are sorted in.
        self._lists = TermLists()
        # The terms of all rows one after the other, and by row where they begin and how many are not NO_TERM.
        self._tokens = numbers()
        self._starts = numbers()
        self._lengths = numbers()
        self._length_codes = bytearray()
        self._unsorted_from_row = 0
        self._unsorted_from_token = 0
        self._documents = 0
        self._total_length = 0
        self._by_length: dict[int, list[str]] = {}
        self._grouped = 1

    def add(self, row: int, terms: Terms) -> None:
        """Index the terms of a row; rows come in ascending order."""
        tokens = [*map(self._vocabulary.__getitem__, terms)]
        length = len(tokens) - tokens.count(NO_TERM)
        self._fill_up_to(row)
        self._starts.append(len(self._tokens))
        self._tokens.extend(tokens)
        self._lengths.append(length)
        self._length_codes.append(bm25.encode_length(length if self._norms else 1))
        if length:
            self._documents += 1
            self._total_length += length
        if len(self._tokens) - self._unsorted_from_token > MOST_UNSORTED:
            self._merge_new_rows()

    def drop(self, row: int) -> None:
        """Leave a row out of the statistics from now on."""
        if row < len(self._lengths) and (length := self._lengths[row]):
            self._documents -= 1
            self._total_length -= length
            self._lengths[row] = 0

    def has_any(self) -> bool:
        return self._documents > 0

    def term(self, term: str, live: Mask) -> ScoredRows:
        rows, frequencies = self._postings(term, live)
        return self._scored(rows, frequencies, idf=bm25.inverse_document_frequency(self._documents, len(rows)))

    def similar_terms(self, term: str, live: Mask, *, edits: int, prefix: int, most: int) -> ScoredRows:
        """Score rows by terms within a number of edits, as Lucene's FuzzyQuery does.

        All of them count as rare as the commonest, and each the less the more it differs.
        """
        expanded = [
            (self._postings(one, live), boost) for one, boost in self._similar(term, edits, prefix=prefix)[:most]
        ]
        expanded = [(postings, boost) for postings, boost in expanded if len(postings[0])]
        if not expanded:
            return NONE_SCORED
        idf = bm25.inverse_document_frequency(self._documents, max(len(rows) for (rows, _), _ in expanded))
        scores = np.zeros(len(live), np.float32)
        for (rows, frequencies), boost in expanded:
            scores[rows] += self._scored(rows, frequencies, idf=idf).scores * np.float32(boost)
        matching = np.flatnonzero(scores)
        return ScoredRows(matching, scores[matching])

    def phrase(self, terms: Terms, live: Mask, *, slop: int) -> ScoredRows:
        """Score rows in which the terms stand at these distances, give or take `slop` in all."""
        places = [(place, term) for place, term in enumerate(terms) if term is not None]
        if len(places) == 1:
            return self.term(places[0][1], live)
        if not places or any(term not in self._vocabulary for _, term in places):
            return NONE_SCORED
        candidates, idf = self._rows_with_all({term for _, term in places}, [term for _, term in places], live=live)
        wanted = [(place - places[0][0], self._vocabulary[term]) for place, term in places]
        frequencies = self._phrase_frequencies(candidates, wanted, slop=slop)
        found = frequencies > 0
        return self._scored(candidates[found], frequencies[found], idf=idf)

    def compact(self, kept: RowNumbers) -> None:
        """Forget all rows but `kept`, which get the numbers 0, 1, 2 and so on; and terms that no row has any more."""
        kept = kept[kept < len(self._starts)]
        tokens, row_of = self._tokens_of(kept)
        in_use, renumbered = np.unique(np.append(np.uint32(NO_TERM), tokens), return_inverse=True)
        terms = list(self._vocabulary)
        self._vocabulary = _TermNumbering({terms[term]: number for number, term in enumerate(in_use)})
        self._tokens = numbers()
        self._tokens.frombytes(renumbered[1:].astype(np.uint32).tobytes())
        self._starts = numbers()
        self._starts.frombytes(np.searchsorted(row_of, kept).astype(np.uint32).tobytes())
        self._lengths = array("I", [self._lengths[row] for row in kept])
        self._length_codes = bytearray(self._length_codes[row] for row in kept)
        self._by_length, self._grouped = {}, 1
        self._lists = TermLists()
        self._unsorted_from_row, self._unsorted_from_token = 0, 0

    def _merge_new_rows(self) -> None:
        """Add the rows that are new since the last time to the lists of their terms."""
        tokens, row_of = self._tokens_of(np.arange(self._unsorted_from_row, len(self._starts)))
        known = tokens != NO_TERM
        self._lists.add(tokens[known], row_of[known])
        self._unsorted_from_row, self._unsorted_from_token = len(self._starts), len(self._tokens)

    def _fill_up_to(self, row: int) -> None:
        missing = row - len(self._starts)
        if missing > 0:
            self._starts.extend([len(self._tokens)] * missing)
            self._lengths.extend([0] * missing)
            self._length_codes.extend(bytes(missing))

    def _postings(self, term: str, live: Mask) -> tuple[RowNumbers, NDArray[np.float32]]:
        if self._unsorted_from_row < len(self._starts):
            self._merge_new_rows()
        number = self._vocabulary.get(term)
        if number is None:
            return NONE_SCORED.rows, NONE_SCORED.scores
        rows, frequencies = self._lists.find_term(number)
        counting = live[rows]
        return rows[counting], frequencies[counting].astype(np.float32)

    def _scored(self, rows: RowNumbers, frequencies: NDArray[np.float32], *, idf: float) -> ScoredRows:
        if not len(rows):
            return NONE_SCORED
        factors = bm25.length_factors(self._total_length / self._documents)
        codes = np.frombuffer(bytes(self._length_codes), np.uint8)[rows]
        return ScoredRows(rows, np.float32(idf) * bm25.saturate_frequency(frequencies, factors[codes]))

    def _similar(self, term: str, edits: int, *, prefix: int) -> list[tuple[str, float]]:
        """Return terms with what they count, the most similar first."""
        self._group_by_length()
        found = []
        for length in range(max(1, len(term) - edits), len(term) + edits + 1):
            known = [one for one in self._by_length.get(length, ()) if one.startswith(term[:prefix])]
            for one, distance in zip(known, edit_distances(term, known), strict=True):
                similarity = 1 - distance / min(len(term), length)
                if distance <= edits and similarity > 0:
                    found.append((one, similarity))
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def _group_by_length(self) -> None:
        for term in islice(self._vocabulary, self._grouped, None):
            if term is not None:
                self._by_length.setdefault(len(term), []).append(term)
        self._grouped = len(self._vocabulary)

    def _rows_with_all(self, distinct: set[str], terms: Sequence[str], *, live: Mask) -> tuple[RowNumbers, float]:
        """Return the rows with every term, and how rare the terms are together."""
        rows = {term: self._postings(term, live)[0] for term in distinct}
        idf = sum(bm25.inverse_document_frequency(self._documents, len(rows[term])) for term in terms)
        common, *others = sorted(rows.values(), key=len)
        for other in others:
            common = np.intersect1d(common, other, assume_unique=True)
        return common, idf

    def _phrase_frequencies(
        self, candidates: RowNumbers, wanted: Sequence[tuple[int, int]], *, slop: int
    ) -> NDArray[np.float32]:
        tokens, row_of = self._tokens_of(candidates)
        if slop:
            ends = np.searchsorted(row_of, candidates, side="right")
            begins = np.searchsorted(row_of, candidates)
            texts = (tokens[begin:end] for begin, end in zip(begins, ends, strict=True))
            return np.asarray([sloppy_frequency(text, wanted, slop=slop) for text in texts], np.float32)
        here = np.ones(len(tokens), bool)
        for offset, term in wanted:
            end = len(tokens) - offset
            here[: max(end, 0)] &= (tokens[offset:] == term) & (row_of[offset:] == row_of[: max(end, 0)])
            here[max(end, 0) :] = False
        counts = np.bincount(np.searchsorted(candidates, row_of[here]), minlength=len(candidates))
        return counts.astype(np.float32)

    def _tokens_of(self, rows: RowNumbers) -> tuple[NDArray[np.uint32], RowNumbers]:
        """Return the terms of these rows one after the other, and beside each the row it is of."""
        starts = np.append(snapshot(self._starts), np.uint32(len(self._tokens))).astype(np.intp)
        counts = starts[rows + 1] - starts[rows]
        row_of = np.repeat(rows, counts)
        first = np.repeat(starts[rows] - (np.cumsum(counts) - counts), counts)
        # Copied by the index, so that the array can grow again afterwards.
        tokens = np.frombuffer(self._tokens, np.uint32)[first + np.arange(len(row_of))] if self._tokens else first
        return tokens.astype(np.uint32), row_of
