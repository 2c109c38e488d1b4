"""Creates, watches and drops the collection of chunks of a KB with its indexes. Each step can be repeated."""

from typing import Final

from pymongo.errors import OperationFailure

from kb_shared.errors import SearchUnavailable
from kb_shared.mongo import chunk_indexes, vectors
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database, long_commands
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.search_indexes import search_required

_NAMESPACE_NOT_FOUND: Final = 26
_INDEX_NOT_FOUND: Final = 27
_NAMESPACE_EXISTS: Final = 48


async def create(database: Database, kb: KnowledgeBase) -> None:
    """Create the collection, its indexes and its search indexes, as far as they are missing."""
    try:
        await database.create_collection(kb.vector_collection, check_exists=False)
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise
    collection = database[kb.vector_collection]
    with long_commands():
        await collection.create_indexes(vectors.INDEXES)
    await chunk_indexes.ensure(collection, kb)


async def search_index_state(database: Database, kb: KnowledgeBase) -> IndexState:
    return await chunk_indexes.read_state(database[kb.vector_collection], kb)


async def drop(database: Database, kb: KnowledgeBase) -> None:
    """Drop the collection with all its indexes. Without Atlas Search there are no search indexes to drop."""
    collection = database[kb.vector_collection]
    for name in chunk_indexes.NAMES:
        try:
            with search_required():
                await collection.drop_search_index(name)
        except SearchUnavailable:
            break
        except OperationFailure as error:
            if error.code not in (_NAMESPACE_NOT_FOUND, _INDEX_NOT_FOUND):
                raise
    await collection.drop()
