"""Deletes a KB: from the commit on nobody sees it and nothing is written to it; its parts go step by step after."""

from kb_api.services import Services
from kb_shared.http.authentication import Caller
from kb_shared.mongo import agents, kb_slots, knowledge_bases
from kb_shared.mongo.database import MongoSession, in_transaction


async def delete_knowledge_base(api: Services, caller: Caller, kb_id: str) -> None:
    """Raises NotFound if there is none, also when it is being deleted already."""

    async def delete(session: MongoSession) -> None:
        kb = await knowledge_bases.get(api.database, caller.organization_id, kb_id, session)
        await knowledge_bases.mark_deleting(api.database, session, caller.organization_id, kb_id)
        await kb_slots.close(api.database, session, caller.organization_id, kb_id)
        await agents.keep_name_of_knowledge_base(api.database, session, caller.organization_id, kb_id, name=kb.name)

    await kb_slots.hold(api.database, caller.organization_id, kb_id)
    await in_transaction(api.database, delete)
    api.life_cycle.wake()
