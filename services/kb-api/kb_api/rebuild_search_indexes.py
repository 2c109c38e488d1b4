"""Requests a rebuild of the search indexes of a KB, which the life cycle carries out."""

from kb_api.life_cycle import LifeCycle
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase


async def rebuild_search_indexes(
    database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle
) -> KnowledgeBase:
    """Store the request, unless the search indexes are being built already, and return the KB. Raises NotFound."""
    key = KnowledgeBaseKey(caller.organization_id, kb_id)

    async def store(session: MongoSession) -> KnowledgeBase:
        await knowledge_bases.get(database, key, session=session)
        await knowledge_bases.request_index_rebuild(database, session, key)
        return await knowledge_bases.get(database, key, session=session)

    kb = await commit_change(database, store)
    life_cycle.wake()
    return kb
