"""The definitions of all indexes, kept in the deployment itself so that they outlive the node."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from bson import Binary, ObjectId
from pymongo import AsyncMongoClient

from kb_local.search_node.change_feed import NODE_DATABASE, Document, Namespace
from kb_local.search_node.definitions import IndexType, index_type, parse_definition, type_of
from kb_local.search_node.generation import DefinitionVersion
from kb_local.search_node.search_index import SearchIndex
from kb_local.search_node.values import UUID_SUBTYPE


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """`main` is the version that was built last, None when none ever was."""

    index: SearchIndex
    main: DefinitionVersion | None


class DefinitionStore:
    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._rows = client[NODE_DATABASE]["indexes"]

    async def load(self) -> list[StoredIndex]:
        return [_stored(row) async for row in self._rows.find({})]

    async def add(self, index: SearchIndex) -> None:
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

    async def set_latest(self, index_id: ObjectId, version: DefinitionVersion) -> None:
        await self._rows.update_one({"_id": index_id}, {"$set": {"latest": _version_row(version)}})

    async def set_main(self, index_id: ObjectId, version: DefinitionVersion) -> None:
        await self._rows.update_one({"_id": index_id}, {"$set": {"main": _version_row(version)}})

    async def remove(self, index_id: ObjectId) -> None:
        await self._rows.delete_one({"_id": index_id})

    async def collection_id(self, namespace: Namespace) -> bytes | None:
        """Return the UUID of a collection, which its successor of the same name does not share; None without one."""
        database = self._client[namespace.database]
        async for row in await database.list_collections(filter={"name": namespace.collection}):
            return bytes(row["info"]["uuid"]) if "uuid" in row.get("info", {}) else None
        return None


def _version_row(version: DefinitionVersion) -> dict[str, Any]:
    return {"number": version.number, "definition": version.definition.source, "created_at": version.created_at}


def _version(row: dict[str, Any], of_type: IndexType) -> DefinitionVersion:
    created_at = dt.datetime.fromtimestamp(int(row["created_at"]) / 1000, dt.UTC)
    definition = parse_definition(row["definition"], of_type=of_type, where="definition")
    return DefinitionVersion(row["number"], definition, created_at)


def _stored(row: Document) -> StoredIndex:
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
