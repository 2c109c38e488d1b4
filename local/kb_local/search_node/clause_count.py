"""The limit of clauses of a query, which is Lucene's."""

from kb_local.search_node.clauses import (
    Bound,
    CompoundClause,
    PhraseClause,
    RangeClause,
    ScoredClause,
    SearchClause,
    TextClause,
)
from kb_local.search_node.errors import CommandError, search_error
from kb_local.search_node.matching import Searchable

MOST_CLAUSES = 1_024
# What Lucene makes of a range: a number is compared as an integer and as a float, each in three ways.
RANGE_CLAUSES = {"number": 6, "date": 3, "string": 2}


def check_clause_count(clause: SearchClause, index: Searchable) -> None:
    """Refuse a query with more clauses than Lucene takes."""
    if _count(clause, index) > MOST_CLAUSES:
        raise too_many_clauses()


def _count(clause: SearchClause, index: Searchable) -> int:
    match clause:
        case ScoredClause():
            return _count(clause.clause, index)
        case CompoundClause():
            parts = (*clause.must, *clause.must_not, *clause.should, *clause.filter)
            return sum(_count(part, index) for part in parts)
        case TextClause():
            return _count_terms(clause, index)
        case PhraseClause():
            return len(clause.paths) * len(clause.queries)
        case RangeClause(paths, lower, upper):
            return len(paths) * max(_of_bound(bound) for bound in (lower, upper))
        case _:
            return 1


def _count_terms(clause: TextClause, index: Searchable) -> int:
    """Count the different terms of each path; of equal ones, a path must not have too many either."""
    count = 0
    for path in clause.paths:
        for _, analyze in index.text_fields(path):
            terms = [term for query in clause.queries for term in analyze(query) if term is not None]
            if len(terms) > MOST_CLAUSES:
                raise too_many_clauses()
            count += len(set(terms))
    return count


def _of_bound(bound: Bound | None) -> int:
    return 0 if bound is None else RANGE_CLAUSES.get(bound.key[0], 1)


def too_many_clauses() -> CommandError:
    return search_error(f"maxClauseCount is set to {MOST_CLAUSES}")
