"""The definitions of all indexes, kept in the deployment itself so that they outlive the node."""

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bson import Binary, ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from kb_local.search_node.change_feed import DEFINITIONS, NODE_DATABASE, RETRY_S, Namespace, RawDocument
from kb_local.search_node.definitions import IndexType, index_type, parse_definition, type_of
from kb_local.search_node.generation import DefinitionVersion
from kb_local.search_node.search_index import SearchIndex
from kb_local.search_node.values import UUID_SUBTYPE

log = logging.getLogger(__name__)

DEADLINE_MS = 5000


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """`main` is the version that was built last, None when none ever was."""

    index: SearchIndex
    main: DefinitionVersion | None


class DefinitionStore:
    """Reads what a majority has at the time of the read, and writes what a majority has when it returns.

    An isolated primary knows neither what the others have written since, nor whether its own rows will survive.
    """

    def __init__(self, client: AsyncMongoClient[RawDocument]) -> None:
        self._client = client
        self._rows = client[NODE_DATABASE].get_collection(
            DEFINITIONS,
            read_concern=ReadConcern("linearizable"),
            write_concern=WriteConcern("majority", wtimeout=DEADLINE_MS),
        )

    async def load(self) -> list[StoredIndex]:
        """Return all rows; makes sure first that a collection has one of each name at most."""
        await self._rows.create_index(["collection_id", "name"], unique=True)
        return await self._read({})

    async def list_indexes(self, namespace: Namespace) -> list[StoredIndex]:
        return await self._read({"database": namespace.database, "collection": namespace.collection})

    async def with_id(self, index_id: ObjectId) -> list[StoredIndex]:
        """Return the row in a list, which is empty when there is none."""
        return await self._read({"_id": index_id})

    async def _read(self, wanted: Mapping[str, Any]) -> list[StoredIndex]:
        rows = self._rows.find(wanted, max_time_ms=DEADLINE_MS)
        return [_stored(row) async for row in rows]

    async def add(self, index: SearchIndex) -> None:
        """Store a new index.

        Raises:
            DuplicateKeyError: the collection has one of that name.
        """
        await self._rows.insert_one(
            {
                "_id": index.id,
                "database": index.namespace.database,
                "collection": index.namespace.collection,
                "collection_id": Binary(index.collection_id, UUID_SUBTYPE),
                "name": index.name,
                "type": type_of(index.latest.definition),
                "latest": _version_row(index.latest),
                "main": None,
            }
        )

    async def set_latest(self, index_id: ObjectId, version: DefinitionVersion) -> bool:
        """Store the version after the one that is stored; False if it is not the one after any more."""
        former = {"_id": index_id, "latest.number": version.number - 1}
        result = await self._rows.update_one(former, {"$set": {"latest": _version_row(version)}})
        return result.matched_count == 1

    async def set_main(self, index_id: ObjectId, version: DefinitionVersion) -> None:
        """Note that a version was built, unless a later one was."""
        older = {"_id": index_id, "$or": [{"main": None}, {"main.number": {"$lt": version.number}}]}
        await self._rows.update_one(older, {"$set": {"main": _version_row(version)}})

    async def remove(self, index_id: ObjectId) -> None:
        await self._rows.delete_one({"_id": index_id})

    async def collection_id(self, namespace: Namespace) -> bytes | None:
        """Return the UUID of a collection, which its successor of the same name does not share; None without one."""
        database = self._client[namespace.database]
        async for row in await database.list_collections(filter={"name": namespace.collection}):
            return bytes(row["info"]["uuid"]) if "uuid" in row.get("info", {}) else None
        return None


async def until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat idempotent work until there is a primary to do it."""
    while True:
        try:
            return await work()
        except PyMongoError as error:
            log.warning("definitions.waiting error=%s", type(error).__name__)
            await asyncio.sleep(RETRY_S)


def _version_row(version: DefinitionVersion) -> dict[str, Any]:
    return {"number": version.number, "definition": version.definition.source, "created_at": version.created_at}


def _version(row: dict[str, Any], of_type: IndexType) -> DefinitionVersion:
    created_at = dt.datetime.fromtimestamp(int(row["created_at"]) / 1000, dt.UTC)
    definition = parse_definition(row["definition"], of_type=of_type, where="definition")
    return DefinitionVersion(row["number"], definition, created_at)


def _stored(row: RawDocument) -> StoredIndex:
    # Rows without a type were written when there was only this one.
    of_type = index_type(row.get("type", "vectorSearch"), where="type")
    index = SearchIndex(
        id=row["_id"],
        namespace=Namespace(row["database"], row["collection"]),
        collection_id=bytes(row["collection_id"]),
        name=row["name"],
        latest=_version(row["latest"], of_type),
    )
    return StoredIndex(index, None if row["main"] is None else _version(row["main"], of_type))
