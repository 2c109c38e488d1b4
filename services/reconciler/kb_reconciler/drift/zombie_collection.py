"""`zombie_collection`: a collection of chunks whose KB does not exist."""

from kb_reconciler.drift.kinds import LeftoverDrift
from kb_shared.mongo import chunk_collections, knowledge_bases
from kb_shared.mongo.database import Database


async def _find(database: Database) -> set[str]:
    # Collections are read first: a KB is stored before its collection, so a new one is not missed.
    kb_ids = await chunk_collections.find_kb_ids(database)
    return kb_ids - await knowledge_bases.find_existing_ids(database, kb_ids)


async def _delete(database: Database, kb_id: str) -> None:
    await chunk_collections.drop(database, knowledge_bases.build_collection_name(kb_id))


ZOMBIE_COLLECTION = LeftoverDrift("zombie_collection", _find, _delete)
