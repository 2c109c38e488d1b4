"""Parses the criteria of a search into clauses, and compiles these into a filter of MongoDB.

The compiled filter is a new document: nothing that a caller sent is passed on as a query. The query that uses the
filter adds the clause on the organization outside of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kb_search.filters.filter_clauses import AnyOf, Clause, Uploaded, metadata_compared, to_mql
from kb_search.filters.filter_errors import FilterBuilding, FilterError
from kb_search.filters.metadata_filter import parse_metadata_filter
from kb_shared.mongo.database import Row


@dataclass(frozen=True, slots=True)
class Criteria:
    """Criteria of a search. Ids are validated; `metadata_filter` is not."""

    document_ids: Sequence[str] = ()
    tag_ids: Sequence[str] = ()
    metadata_filter: Mapping[str, Any] | None = None
    upload_date_from: datetime | None = None
    upload_date_to: datetime | None = None


def parse(criteria: Criteria) -> list[Clause]:
    """Parse the criteria into clauses, all of which must hold.

    Raises:
        FilterError: The criteria are invalid. No other error is raised, whatever `metadata_filter` contains.
    """
    clauses: list[Clause] = []
    if criteria.document_ids:
        clauses.append(AnyOf("document_id", tuple(criteria.document_ids)))
    if criteria.tag_ids:
        clauses.append(AnyOf("tag_ids", tuple(criteria.tag_ids)))
    clauses.extend(parse_metadata_filter(criteria.metadata_filter or {}))
    clauses.extend(_date_clause(criteria.upload_date_from, criteria.upload_date_to))
    return clauses


def compile_filter(
    clauses: Sequence[Clause], *, filterable_metadata: Collection[str], being_built: Collection[str] = ()
) -> Row:
    """Compile the clauses into one filter; `{}` if there are none. Raises the errors of `require_paths`."""
    require_paths(clauses, filterable_metadata=filterable_metadata, being_built=being_built)
    return {"$and": [to_mql(clause) for clause in clauses]} if clauses else {}


def require_paths(
    clauses: Sequence[Clause], *, filterable_metadata: Collection[str], being_built: Collection[str]
) -> None:
    """Refuse comparisons of metadata keys that have no filter path in the indexes.

    Args:
        filterable_metadata: Keys that have a path, or get one.
        being_built: Those of them whose path is still being built.

    Raises:
        FilterError: 422 `not-filterable`.
        FilterBuilding: 409 `filter-building`; a later search succeeds.
    """
    for compared in metadata_compared(clauses):
        if compared.key not in filterable_metadata:
            raise FilterError(
                compared.field,
                f"{compared.operator} works only on keys in filterable_metadata of the knowledge base; "
                "add this key there, or compare with $eq or $in",
                reason="operator",
                slug="not-filterable",
            )
        if compared.key in being_built:
            raise FilterBuilding(compared.field)


def _date_clause(since: datetime | None, until: datetime | None) -> Iterator[Uploaded]:
    if since is not None and until is not None and since > until:
        raise FilterError("upload_date_from", "must not be after upload_date_to", reason="dates")
    if since is not None or until is not None:
        yield Uploaded(since, until)
