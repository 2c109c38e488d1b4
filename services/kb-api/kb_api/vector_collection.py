"""The collection of a KB's chunks with its indexes: made, watched, dropped. Each step may be repeated."""

from enum import StrEnum
from typing import Final

from pymongo.errors import OperationFailure

from kb_shared.mongo import search_indexes, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.search_indexes import SearchIndex

_NAMESPACE_NOT_FOUND: Final = 26
_INDEX_NOT_FOUND: Final = 27
_NAMESPACE_EXISTS: Final = 48


class IndexState(StrEnum):
    MISSING = "missing"
    BUILDING = "building"
    READY = "ready"
    FAILED = "failed"


async def create(database: Database, kb: KnowledgeBase) -> None:
    """Create collection, indexes and search index, or what is missing of them."""
    try:
        await database.create_collection(kb.vector_collection, check_exists=False)
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise
    collection = database[kb.vector_collection]
    await collection.create_indexes(vectors.INDEXES)
    if await search_index_state(database, kb) is IndexState.MISSING:
        await collection.create_search_index(vectors.search_index(kb.embedding_dimensions, kb.filterable_metadata))


async def search_index_state(database: Database, kb: KnowledgeBase) -> IndexState:
    found = await search_indexes.listed(database[kb.vector_collection], vectors.VECTOR_INDEX)
    return _state(found[0]) if found else IndexState.MISSING


def _state(index: SearchIndex) -> IndexState:
    if index.status == "FAILED":
        return IndexState.FAILED
    if index.status in ("DOES_NOT_EXIST", "DELETING"):
        return IndexState.MISSING
    # While an index is updated the old definition is queryable and the status says BUILDING.
    return IndexState.READY if index.queryable and index.status == "READY" else IndexState.BUILDING


async def drop(database: Database, kb: KnowledgeBase) -> None:
    collection = database[kb.vector_collection]
    try:
        await collection.drop_search_index(vectors.VECTOR_INDEX)
    except OperationFailure as error:
        if error.code not in (_NAMESPACE_NOT_FOUND, _INDEX_NOT_FOUND):
            raise
    await collection.drop()
