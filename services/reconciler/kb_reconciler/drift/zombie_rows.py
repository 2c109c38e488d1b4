"""`zombie_rows`: rows of documents, jobs, backfills or slots of a KB that does not exist."""

from functools import partial

from kb_reconciler.drift.kinds import LeftoverDrift
from kb_shared.mongo import backfills, document_index, index_jobs, kb_slots, knowledge_bases
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey

_COLLECTIONS = (document_index.NAME, index_jobs.NAME, backfills.NAME, kb_slots.NAME)


async def _find(database: Database) -> set[str]:
    # Rows are read first: a KB is stored in one transaction with its slots, so a new one is not missed.
    kb_ids: set[str] = set()
    for name in _COLLECTIONS:
        kb_ids |= set(await database[name].distinct("kb_id"))
    return kb_ids - await knowledge_bases.find_existing_ids(database, kb_ids)


async def _delete(database: Database, kb_id: str) -> None:
    organization_ids: set[str] = set()
    for name in _COLLECTIONS:
        organization_ids |= set(await database[name].distinct("organization_id", {"kb_id": kb_id}))
    for organization_id in organization_ids:
        key = KnowledgeBaseKey(organization_id, kb_id)
        await document_index.delete_of_kb(database, key)
        await index_jobs.delete_of_kb(database, key)
        await backfills.delete_of_kb(database, key)
        await in_transaction(database, partial(_delete_slots, database, key))


async def _delete_slots(database: Database, key: KnowledgeBaseKey, session: MongoSession) -> None:
    await kb_slots.delete(database, session, key)


ZOMBIE_ROWS = LeftoverDrift("zombie_rows", _find, _delete)
