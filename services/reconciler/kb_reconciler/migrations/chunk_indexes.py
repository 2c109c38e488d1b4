"""Builds the index that chunks are compared by in collections of version 1, and drops the index that it replaces."""

from typing import Final

from pymongo import ASCENDING

from kb_reconciler.migrations.migration import Migration
from kb_reconciler.migrations.replaced_indexes import drop_replaced
from kb_shared.mongo import knowledge_bases, vectors
from kb_shared.mongo.database import Collection, Database

_REPLACED_INDEX: Final = "document_id_1_chunk_index_1"


async def _migrate_batch(database: Database, after: str | None) -> str | None:
    """Migrate the collection of one KB; KBs that are created meanwhile get the new index at once."""
    beyond = {} if after is None else {"_id": {"$gt": after}}
    kb = await database[knowledge_bases.NAME].find_one(beyond, {"vector_collection": 1}, sort=[("_id", ASCENDING)])
    if kb is None:
        return None
    await _migrate(database[kb["vector_collection"]])
    return str(kb["_id"])


async def _migrate(collection: Collection) -> None:
    # An index would create the collection of a KB that is being created or deleted.
    if not await collection.index_information():
        return
    await vectors.create_indexes(collection)
    await drop_replaced(collection, _REPLACED_INDEX)


INDEX_OF_CHUNKS: Final = Migration(
    version=2,
    name="index_of_chunks",
    description=(
        "Builds the index `chunks_of_documents` on the chunks of each knowledge base, by which the reconciler compares "
        "them, and drops the index `document_id_1_chunk_index_1`, whose queries the new one answers, too."
    ),
    migrate_batch=_migrate_batch,
)
