"""Databases with the indexes of the collections of all services, which take longer to make than most tests."""

from collections.abc import Sequence

import kb_api.indexes
import kb_indexer.indexes
import kb_knowledge.indexes
import kb_reconciler.indexes
import kb_search.indexes
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema import create_indexes


async def create_all_indexes(database: Database) -> None:
    """Create the indexes that a system has after all its services have started."""
    services = (kb_api.indexes, kb_indexer.indexes, kb_knowledge.indexes, kb_reconciler.indexes, kb_search.indexes)
    await create_indexes(database, {name: indexes for each in services for name, indexes in each.COLLECTIONS}.items())


async def delete_everything(database: Database) -> None:
    """Delete all rows, and the collections of chunks; the indexes of the other collections stay."""
    others = []
    for name in await database.list_collection_names():
        if name.startswith("kb_vectors_"):
            await database.drop_collection(name)
        elif not name.startswith("system."):
            others.append(name)
    for name in await _collections_with_rows(database, others):
        await database[name].delete_many({})


async def _collections_with_rows(database: Database, names: Sequence[str]) -> list[str]:
    """Find the few that have rows with one command, because a deletion from each costs four times as much CPU."""
    queries = [
        {
            "$unionWith": {
                "coll": name,
                "pipeline": [{"$limit": 1}, {"$project": {"_id": 0, "collection": {"$literal": name}}}],
            }
        }
        for name in names
    ]
    # No document, to which those of the collections are added.
    rows = await database.aggregate([{"$documents": []}, *queries])
    return [row["collection"] async for row in rows]
