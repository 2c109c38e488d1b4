"""The search indexes of a collection as the deployment lists them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymongo.errors import OperationFailure

from kb_shared.mongo.database import Collection

_NAMESPACE_NOT_FOUND: Final = 26


@dataclass(frozen=True, slots=True)
class SearchIndex:
    name: str
    status: str
    """`READY`, `BUILDING`, `FAILED` and others."""
    queryable: bool
    definition: Mapping[str, Any]
    """The latest, which is the one that answers once the index is `READY`."""


async def listed(collection: Collection, name: str | None = None) -> list[SearchIndex]:
    """All of them, or the one with a name; none if there is no collection."""
    try:
        rows = await (await collection.list_search_indexes(name)).to_list()
    except OperationFailure as error:
        if error.code != _NAMESPACE_NOT_FOUND:
            raise
        return []
    return [
        SearchIndex(row["name"], row["status"], queryable=bool(row["queryable"]), definition=row["latestDefinition"])
        for row in rows
    ]
