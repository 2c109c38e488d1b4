"""Translates clauses to operators of `$search` that match the same chunks as the filter of `$vectorSearch`.

The operators only narrow the text leg: the rows of its candidates are filtered again when they are read.
"""

from kb_search.filters.filter_clauses import (
    AllHold,
    AnyHolds,
    AnyOf,
    Clause,
    MetadataCompared,
    NameCompared,
    NameContains,
    NoneOf,
    Uploaded,
)
from kb_shared.mongo.chunk_indexes import DATE_PATH, METADATA
from kb_shared.mongo.database import Row
from kb_shared.text.metadata_pairs import metadata_pair


def to_operator(clause: Clause) -> Row:
    """Translate a clause to an operator on the paths of `kb_text_index`."""
    match clause:
        case AnyOf(path, values):
            operator = _in(path, values)
        case NoneOf(path, values):
            operator = _negate_operator(_in(path, values))
        case NameCompared(comparison, bound):
            operator = _range("document_name", {comparison: bound})
        case NameContains():
            raise ValueError("parts of names must be resolved before")
        case MetadataCompared(key, "$ne", value):
            operator = _negate_operator(_in("metadata_pairs", (metadata_pair(key, value),)))
        case MetadataCompared(key, comparison, value):
            operator = _range(f"{METADATA}.{key}", {comparison: value})
        case Uploaded(since, until):
            bounds = {"$gte": since, "$lte": until}
            operator = _range(DATE_PATH, {end: date for end, date in bounds.items() if date is not None})
        case AllHold(clauses):
            operator = {"compound": {"filter": [to_operator(one) for one in clauses]}}
        case AnyHolds(clauses):
            operator = {"compound": {"should": [to_operator(one) for one in clauses], "minimumShouldMatch": 1}}
    return operator


def _in(path: str, values: tuple[str, ...]) -> Row:
    return {"in": {"path": path, "value": list(values)}}


def _range(path: str, bounds: Row) -> Row:
    return {"range": {"path": path, **{operator.removeprefix("$"): bound for operator, bound in bounds.items()}}}


def _negate_operator(operator: Row) -> Row:
    # In Lucene, a query with only negative clauses matches nothing. Every chunk has a `kb_id`.
    return {"compound": {"filter": [{"exists": {"path": "kb_id"}}], "mustNot": [operator]}}
