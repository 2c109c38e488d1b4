"""The indexes of the collections that only this service reads and writes."""

from typing import Final

from kb_search.store import prompts, query_log, runs
from kb_shared.mongo import schema
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema import CollectionIndexes

_COLLECTIONS: Final[tuple[CollectionIndexes, ...]] = (
    (prompts.NAME, prompts.INDEXES),
    (query_log.NAME, query_log.INDEXES),
    (runs.NAME, runs.INDEXES),
    (runs.THREADS, runs.THREAD_INDEXES),
)


async def ensure(database: Database) -> None:
    """Create the indexes that are missing."""
    await schema.create_indexes(database, _COLLECTIONS)
