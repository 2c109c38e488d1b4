"""Creates, finds and drops the collections of chunks, with their indexes. Each step can be repeated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pymongo.errors import OperationFailure

from kb_shared.errors import SearchUnavailable
from kb_shared.mongo import chunk_indexes, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, build_collection_name
from kb_shared.mongo.search_indexes import search_required

_NAMESPACE_NOT_FOUND: Final = 26
_INDEX_NOT_FOUND: Final = 27
_NAMESPACE_EXISTS: Final = 48
_NAME: Final = re.compile(build_collection_name("([0-9a-f]{24})"))


@dataclass(frozen=True, slots=True)
class ChunkStorage:
    """Sizes of a collection of chunks, in bytes."""

    chunk_bytes: int
    """Size before compression."""
    stored_bytes: int
    """Size on disk."""
    indexes: Mapping[str, int]
    """Size of each index by name. Search indexes are not among them."""


async def create(database: Database, kb: KnowledgeBase) -> None:
    """Create the collection, its indexes and its search indexes, as far as they are missing."""
    try:
        await database.create_collection(kb.vector_collection, check_exists=False)
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise
    collection = database[kb.vector_collection]
    await vectors.create_indexes(collection)
    await chunk_indexes.ensure(collection, kb)


async def measure(database: Database, name: str) -> ChunkStorage | None:
    """Return the sizes of a collection; None if there is no such collection."""
    try:
        rows = await (await database[name].aggregate([{"$collStats": {"storageStats": {}}}])).to_list()
    except OperationFailure as error:
        if error.code != _NAMESPACE_NOT_FOUND:
            raise
        return None
    stats = rows[0]["storageStats"]
    indexes = {index: int(size) for index, size in stats["indexSizes"].items()}
    return ChunkStorage(int(stats["size"]), int(stats["storageSize"]), indexes)


async def find_kb_ids(database: Database) -> set[str]:
    """Return the ids of all KBs with a collection, of any organization, whether the KB exists or not."""
    names = await database.list_collection_names()
    return {found[1] for name in names if (found := _NAME.fullmatch(name))}


async def drop(database: Database, name: str) -> None:
    """Drop the collection with all its indexes. Without Atlas Search there are no search indexes to drop."""
    collection = database[name]
    for index in chunk_indexes.NAMES:
        try:
            with search_required():
                await collection.drop_search_index(index)
        except SearchUnavailable:
            break
        except OperationFailure as error:
            if error.code not in (_NAMESPACE_NOT_FOUND, _INDEX_NOT_FOUND):
                raise
    await collection.drop()
