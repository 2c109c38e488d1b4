"""Resolves parts of names to the documents that have them, because search indexes compare whole names only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kb_search.filters.filter_clauses import AllHold, AnyHolds, AnyOf, Clause, NameContains
from kb_search.filters.filter_errors import FilterError
from kb_shared.mongo import document_index
from kb_shared.mongo.database import Database

MAX_DOCUMENTS: Final = 1_000
"""Greatest number of documents that the parts of names of one filter may be resolved to."""
_NO_DOCUMENT: Final = ":"
"""Value that is no id of a document. A search index takes no empty list."""


async def resolve_names(
    database: Database, organization_id: str, *, kb_ids: Collection[str], clauses: Sequence[Clause]
) -> list[Clause]:
    """Replace each part of a name by the documents of these KBs that have it in their name.

    Raises:
        FilterError: 422 `filter-too-broad`, more than `MAX_DOCUMENTS`.
    """
    resolved: dict[str, tuple[str, ...]] = {}
    left = MAX_DOCUMENTS
    for wanted in _parts_of_names(clauses):
        if wanted.part in resolved:
            continue
        found = await document_index.find_named(
            database, organization_id, kb_ids=kb_ids, part_of_name=wanted.part, limit=left + 1
        )
        if len(found) > left:
            raise FilterError(
                wanted.field,
                f"matches the names of more than {MAX_DOCUMENTS} documents; give a longer part of the name, or filter "
                "by a tag or metadata instead",
                reason="size",
                slug="filter-too-broad",
            )
        left -= len(found)
        resolved[wanted.part] = tuple(found) or (_NO_DOCUMENT,)
    return replace_names(clauses, resolved)


def _parts_of_names(clauses: Iterable[Clause]) -> Iterable[NameContains]:
    for clause in clauses:
        match clause:
            case NameContains():
                yield clause
            case AllHold(parts) | AnyHolds(parts):
                yield from _parts_of_names(parts)
            case _:
                pass


def replace_names(clauses: Iterable[Clause], resolved: Mapping[str, tuple[str, ...]]) -> list[Clause]:
    """Replace each part of a name by the ids of its documents, at any depth."""
    return [_replace(clause, resolved) for clause in clauses]


def _replace(clause: Clause, resolved: Mapping[str, tuple[str, ...]]) -> Clause:
    match clause:
        case NameContains(part):
            return AnyOf("document_id", resolved[part])
        case AllHold(parts) | AnyHolds(parts):
            return replace(clause, clauses=tuple(replace_names(parts, resolved)))
        case _:
            return clause
