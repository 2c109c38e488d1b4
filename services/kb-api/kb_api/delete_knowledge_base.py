"""Deletes a KB: after the commit it is not found and nothing is written to it; the life cycle drops its parts."""

from kb_api.entries_knowledge_base import require_not_of_entries
from kb_api.life_cycle import LifeCycle
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.mongo import agents, kb_slots, knowledge_bases
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey


async def delete_knowledge_base(
    database: Database,
    caller: Caller,
    *,
    kb_id: str,
    life_cycle: LifeCycle,
    with_entries: bool = False,
) -> None:
    """Mark a KB as deleted.

    Args:
        with_entries: permission for the KB of the organization's entries, which goes with the organization only.

    Raises:
        NotFound: there is none, or it is being deleted.
        RequestError: 409 `knowledge-kb-fixed`.
    """
    key = KnowledgeBaseKey(caller.organization_id, kb_id)
    if not with_entries:
        require_not_of_entries(await knowledge_bases.get(database, key))

    async def delete(session: MongoSession) -> None:
        kb = await knowledge_bases.get(database, key, session=session)
        await knowledge_bases.mark_deleting(database, session, key)
        await kb_slots.close(database, session, key)
        await agents.store_name_of_knowledge_base(database, session, key, name=kb.name)

    await kb_slots.block_swaps(database, key)
    await commit_change(database, delete)
    life_cycle.wake()
