"""Matches a clause with the rows of a text index and scores them, combined as Lucene's queries do it."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kb_local.search_node.analyzers import Terms
from kb_local.search_node.clauses import (
    Bound,
    CompoundClause,
    ExistsClause,
    Fuzzy,
    OneOfClause,
    PhraseClause,
    RangeClause,
    ScoredClause,
    SearchClause,
    TextClause,
    TextPath,
)
from kb_local.search_node.row_lists import Mask
from kb_local.search_node.text_field import ScoredRows, TextField
from kb_local.search_node.values import FilterKey


class Matches(NamedTuple):
    """By row; the score is 0 where the row does not match, and may be 0 where it does."""

    mask: Mask
    scores: NDArray[np.float32]


class Searchable(Protocol):
    """Parts of an index that clauses are matched with."""

    @property
    def live(self) -> Mask:
        """Return for each row whether it still counts."""

    def text_fields(self, path: TextPath) -> Sequence[tuple[TextField, Callable[[str], Terms]]]:
        """Return the fields of a path, each with what analyzes a query for it."""

    def rows_with_value(self, path: str, keys: Iterable[FilterKey]) -> Mask: ...

    def rows_in_range(self, path: str, lower: Bound | None, *, upper: Bound | None) -> Mask: ...

    def rows_with_path(self, path: str) -> Mask: ...


def matches(clause: SearchClause, index: Searchable) -> Matches:
    """Return the matches of a clause among all rows, also those that do not count any more."""
    found: Matches
    match clause:
        case TextClause():
            found = _sum_matches(
                index,
                clause.paths,
                queries=clause.queries,
                search=lambda field, terms: _text(field, terms, clause=clause, live=index.live),
            )
        case PhraseClause(paths, queries, slop):
            found = _sum_matches(
                index,
                paths,
                queries=queries,
                search=lambda field, terms: [field.phrase(terms, index.live, slop=slop)],
            )
        case OneOfClause(paths, keys):
            found = _constant(reduce(np.logical_or, (index.rows_with_value(path, keys) for path in paths)))
        case RangeClause(paths, lower, upper):
            found = _constant(reduce(np.logical_or, (index.rows_in_range(path, lower, upper=upper) for path in paths)))
        case ExistsClause(path):
            found = _constant(index.rows_with_path(path))
        case ScoredClause():
            found = _scored(clause, matches(clause.clause, index))
        case CompoundClause():
            found = _compound(clause, index)
    return found


def _scored(clause: ScoredClause, found: Matches) -> Matches:
    if clause.constant is not None:
        return Matches(found.mask, found.mask * np.float32(clause.constant))
    return Matches(found.mask, found.scores * np.float32(clause.boost))


def _constant(mask: Mask) -> Matches:
    return Matches(mask, mask.astype(np.float32))


def _compound(compound: CompoundClause, index: Searchable) -> Matches:
    size = len(index.live)
    mask, scores = np.ones(size, bool), np.zeros(size, np.float32)
    for clause in compound.filter:
        mask &= matches(clause, index).mask
    for clause in compound.must_not:
        mask &= ~matches(clause, index).mask
    for clause in compound.must:
        found = matches(clause, index)
        mask &= found.mask
        scores += found.scores
    if compound.should:
        optional = _combine_optional([matches(clause, index) for clause in compound.should])
        # Without anything that must match, one of those that should has to.
        at_least = compound.minimum_should_match or int(not compound.must and not compound.filter)
        mask &= optional.counts >= at_least
        scores += optional.scores
    return Matches(mask, np.where(mask, scores, np.float32(0)))


class _Optional(NamedTuple):
    counts: NDArray[np.int64]
    scores: NDArray[np.float32]


def _combine_optional(found: Sequence[Matches]) -> _Optional:
    return _Optional(
        np.sum([one.mask for one in found], axis=0, dtype=np.int64),
        np.sum([one.scores for one in found], axis=0, dtype=np.float32),
    )


def _sum_matches(
    index: Searchable,
    paths: Sequence[TextPath],
    *,
    queries: Sequence[str],
    search: Callable[[TextField, Terms], list[ScoredRows]],
) -> Matches:
    """Add up what every query finds at every path."""
    total = Matches(np.zeros(len(index.live), bool), np.zeros(len(index.live), np.float32))
    for path in paths:
        for field, analyze in index.text_fields(path):
            for query in queries:
                for rows, scores in search(field, analyze(query)):
                    total.mask[rows] = True
                    total.scores[rows] += scores
    return total


def _text(field: TextField, terms: Terms, *, clause: TextClause, live: Mask) -> list[ScoredRows]:
    searched = [term for term in terms if term is not None]
    found = [_term(field, term, fuzzy=clause.fuzzy, live=live) for term in searched]
    if not clause.every_term or len(found) < 2:
        return found
    counts = np.zeros(len(live), np.int64)
    for rows, _ in found:
        counts[rows] += 1
    return [ScoredRows(rows[every], scores[every]) for rows, scores in found for every in [counts[rows] == len(found)]]


def _term(field: TextField, term: str, *, fuzzy: Fuzzy | None, live: Mask) -> ScoredRows:
    if fuzzy is None:
        return field.term(term, live)
    return field.similar_terms(term, live, edits=fuzzy.edits, prefix=fuzzy.prefix, most=fuzzy.expansions)
