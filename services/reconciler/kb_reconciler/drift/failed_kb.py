"""`failed_kb`: a KB is in `error`. Its search indexes are built again, with longer and longer pauses."""

from collections.abc import Sequence

from kb_reconciler.drift.index_lease import index_lease
from kb_reconciler.drift.kinds import DeploymentDrift
from kb_shared.mongo import chunk_indexes, knowledge_bases
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import Status


async def _find(database: Database) -> Sequence[KnowledgeBaseKey]:
    return await knowledge_bases.find_failed_to_retry(database)


async def _repair(database: Database, key: KnowledgeBaseKey) -> bool:
    """Drop the indexes that failed, and let kb-api take its next step."""
    async with index_lease(database, key.kb_id) as held:
        kb = await knowledge_bases.find(database, key)
        if not held or kb is None or kb.status is not Status.ERROR:
            return False
        await knowledge_bases.note_retry(database, key)
        collection = database[kb.vector_collection]
        if await chunk_indexes.read_state(collection, kb) is IndexState.FAILED:
            await chunk_indexes.drop_failed(collection, kb)
        return await knowledge_bases.set_status(database, kb, Status.BUILDING, only_from=Status.ERROR)


FAILED_KB = DeploymentDrift("failed_kb", _find, _repair)
