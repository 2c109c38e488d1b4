"""The brake: a paused KB indexes nothing and is searched all the same; what has to leave it leaves.

What would have been indexed meanwhile is kept, and asked for again when the KB is resumed.
"""

from kb_api.services import Services
from kb_api.source import SOURCE
from kb_contracts.outcomes import KnowledgeBaseChanged
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, kb_slots, knowledge_bases
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.observability import tracing
from kb_shared.stored_time import now


async def pause_knowledge_base(api: Services, caller: Caller, kb_id: str) -> KnowledgeBase:
    """From here on nothing is written to the KB but removals; a paused one stays as it is.

    Raises:
        NotFound: there is none.
        RequestError: 409 `concurrent-change`.
    """
    return await _set_paused(api, caller, kb_id, paused=True)


async def resume_knowledge_base(api: Services, caller: Caller, kb_id: str) -> KnowledgeBase:
    """Have all that was kept back indexed; one that is not paused stays as it is. Raises as `pause_knowledge_base`."""
    return await _set_paused(api, caller, kb_id, paused=False)


async def _set_paused(api: Services, caller: Caller, kb_id: str, *, paused: bool) -> KnowledgeBase:
    kb = await knowledge_bases.get(api.database, caller.organization_id, kb_id)

    async def store(session: MongoSession) -> KnowledgeBase:
        current = await knowledge_bases.get(api.database, caller.organization_id, kb_id, session)
        if (current.paused_at is not None) is paused:
            return current
        fields = {"paused_at": now() if paused else None, "updated_by": caller.key_id}
        if not paused and current.status is Status.ACTIVE:
            # Active again once what was kept back is done.
            fields["status"] = Status.INDEXING
        changed = await knowledge_bases.change(api.database, session, current, fields)
        if changed is None:
            raise RequestError(409, "concurrent-change", "This knowledge base changed meanwhile; send it again.")
        await kb_slots.set_paused(api.database, session, kb.organization_id, kb_id, paused=paused)
        if not paused:
            await backfills.start(
                api.database,
                session,
                kb.organization_id,
                kb_id,
                kind=backfills.Kind.RESUME,
                traceparent=tracing.current(),
            )
        outcome = KnowledgeBaseChanged(organization_id=kb.organization_id, kb_id=kb_id)
        await announce(
            api.database, session, Announcement(outcome, changed.tags_version, tracing.current()), source=SOURCE
        )
        return changed

    if (kb.paused_at is not None) is not paused:
        await kb_slots.hold(api.database, kb.organization_id, kb_id)
    # Also if there seems to be nothing to do: the commit confirms that a majority has it.
    changed = await in_transaction(api.database, store)
    api.life_cycle.wake()
    return changed
