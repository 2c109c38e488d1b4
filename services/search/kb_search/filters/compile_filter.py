"""Which chunks a caller asks for: parsed into clauses, then compiled to a fresh document of our own making.

Nothing a caller sent is ever passed on as a query; the clause on the organization is added outside of the compiled
document by whoever runs it.
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
    """Criteria of a search. Ids are checked by now; `metadata_filter` is as it came."""

    document_ids: Sequence[str] = ()
    tag_ids: Sequence[str] = ()
    metadata_filter: Mapping[str, Any] | None = None
    upload_date_from: datetime | None = None
    upload_date_to: datetime | None = None


def parse(criteria: Criteria) -> list[Clause]:
    """Give the clauses that must all hold; none if there are no criteria.

    Raises:
        FilterError: and nothing else, whatever `metadata_filter` holds.
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
    """Give the filter that all of `clauses` together make; `{}` if there are none. Raises what `require_paths` does."""
    require_paths(clauses, filterable_metadata=filterable_metadata, being_built=being_built)
    return {"$and": [to_mql(clause) for clause in clauses]} if clauses else {}


def require_paths(
    clauses: Sequence[Clause], *, filterable_metadata: Collection[str], being_built: Collection[str]
) -> None:
    """Refuse comparisons of metadata keys that have no filter path of their own in the indexes.

    Args:
        filterable_metadata: those that have one, or are to have one.
        being_built: those of them that have none yet.

    Raises:
        FilterError: 422 `not-filterable`; 409 `filter-building`, later will do.
    """
    for compared in metadata_compared(clauses):
        if compared.key not in filterable_metadata:
            raise FilterError(
                compared.field,
                f"{compared.operator} works on keys in filterable_metadata of the knowledge base only; "
                "add this key there, or ask for values it equals",
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
