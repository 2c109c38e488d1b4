"""Pauses and resumes a KB. A paused KB indexes nothing; searches and removals go on.

Documents that would have been indexed wait, and are requested again when the KB is resumed.
"""

from kb_api.life_cycle import LifeCycle
from kb_api.source import SOURCE
from kb_contracts.outcomes import KnowledgeBaseChanged
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, kb_slots, knowledge_bases
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.stored_time import now
from kb_shared.observability import tracing


async def pause_knowledge_base(
    database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle
) -> KnowledgeBase:
    """Write nothing but removals to the KB from now on. A KB that is paused already does not change.

    Raises:
        NotFound: there is none.
        RequestError: 409 `concurrent-change`.
    """
    return await _set_paused(database, caller, kb_id=kb_id, life_cycle=life_cycle, paused=True)


async def resume_knowledge_base(
    database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle
) -> KnowledgeBase:
    """Index what waited while the KB was paused; no change if it is not paused. Raises as `pause_knowledge_base`."""
    return await _set_paused(database, caller, kb_id=kb_id, life_cycle=life_cycle, paused=False)


async def _set_paused(
    database: Database, caller: Caller, *, kb_id: str, life_cycle: LifeCycle, paused: bool
) -> KnowledgeBase:
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))

    async def store(session: MongoSession) -> KnowledgeBase:
        current = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id), session=session)
        if (current.paused_at is not None) is paused:
            return current
        fields = {"paused_at": now() if paused else None, "updated_by": caller.key_id}
        if not paused and current.status is Status.ACTIVE:
            # It becomes active again when the documents that waited are indexed.
            fields["status"] = Status.INDEXING
        changed = await knowledge_bases.change(database, session, current, fields=fields)
        if changed is None:
            raise RequestError(409, "concurrent-change", "This knowledge base was changed by another request; retry.")
        await kb_slots.set_paused(database, session, kb.key, paused=paused)
        if not paused:
            await backfills.start(database, session, kb.key, kind=backfills.Kind.RESUME, traceparent=tracing.current())
        outcome = KnowledgeBaseChanged(organization_id=kb.organization_id, kb_id=kb_id)
        await announce(database, session, Announcement(outcome, changed.tags_version, tracing.current()), source=SOURCE)
        return changed

    if (kb.paused_at is not None) is not paused:
        await kb_slots.block_swaps(database, kb.key)
    # Even without a change: the commit confirms that a majority has the state.
    changed = await commit_change(database, store)
    life_cycle.wake()
    return changed
