"""Lists the search indexes of a collection."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pymongo.errors import OperationFailure

from kb_shared.errors import SearchUnavailable
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Collection, Database

_NAMESPACE_NOT_FOUND: Final = 26
_WITHOUT_SEARCH: Final = frozenset({59, 115, 31082, 40324, 6047401})
"""Error codes of a mongod without search: an unknown command (59) or stage (40324) up to 6.0, later that it is not
supported here (115), not enabled (31082), or for Atlas only (6047401)."""


@contextmanager
def search_required() -> Iterator[None]:
    """Raise SearchUnavailable if MongoDB has no Atlas Search."""
    try:
        yield
    except OperationFailure as error:
        if error.code in _WITHOUT_SEARCH:
            raise SearchUnavailable(f"MongoDB has no Atlas search (code {error.code})", retry_after_s=5) from error
        raise


@dataclass(frozen=True, slots=True)
class ListedIndex:
    name: str
    status: str
    """`READY`, `BUILDING`, `FAILED` and others."""
    queryable: bool
    definition: Mapping[str, Any]
    """Latest definition; the index answers with it once it is `READY`."""


async def list_indexes(collection: Collection, name: str | None = None) -> list[ListedIndex]:
    """Return all search indexes, or the one with a name; empty if the collection does not exist."""
    try:
        with search_required():
            rows = await (await collection.list_search_indexes(name)).to_list()
    except OperationFailure as error:
        if error.code != _NAMESPACE_NOT_FOUND:
            raise
        return []
    return [
        ListedIndex(row["name"], row["status"], queryable=bool(row["queryable"]), definition=row["latestDefinition"])
        for row in rows
    ]


async def explain_unavailability(database: Database) -> str | None:
    """Return why this deployment has no search; None if it has."""
    try:
        await list_indexes(database[knowledge_bases.NAME])
    except SearchUnavailable as error:
        return f"{error}; KB_MONGO_URI has to name a deployment with Atlas search"
    return None
