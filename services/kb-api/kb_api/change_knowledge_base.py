"""Changes what may change of a KB. New tags close the fence for work that was decided for the old ones."""

from collections.abc import Sequence
from typing import Any

from kb_api.create_knowledge_base import allowed_max_chunks, known_tags
from kb_api.knowledge_base_request import ChangeKnowledgeBase
from kb_api.services import Services
from kb_api.source import SOURCE
from kb_contracts.outcomes import KnowledgeBaseChanged
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, index_jobs, kb_slots, knowledge_bases, rate_limits
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.observability import tracing


async def change_knowledge_base(api: Services, caller: Caller, kb_id: str, asked: ChangeKnowledgeBase) -> KnowledgeBase:
    """Return the KB as it is then.

    Raises:
        NotFound: there is none.
        RequestError: 422 `unknown-tag`, `validation-error`; 409 `concurrent-change`.
    """
    kb = await knowledge_bases.get(api.database, caller.organization_id, kb_id)
    fields = await _fields(api, kb, asked)
    if not fields:
        return await _unchanged(api, kb, asked)
    changed = await _store(api, kb, fields | {"updated_by": caller.key_id}, retag="tag_ids" in fields)
    if changed is None:
        await knowledge_bases.get(api.database, caller.organization_id, kb_id)
        raise _changed_meanwhile()
    if "rate_limits" in fields:
        await _heed_limits(api, changed)
    api.life_cycle.wake()
    return changed


async def _unchanged(api: Services, kb: KnowledgeBase, asked: ChangeKnowledgeBase) -> KnowledgeBase:
    """Return the KB, which needs no change: read in a transaction, whose commit confirms that a majority has it."""

    async def read(session: MongoSession) -> KnowledgeBase:
        return await knowledge_bases.get(api.database, kb.organization_id, kb.kb_id, session)

    current = await in_transaction(api.database, read)
    if await _fields(api, current, asked):
        raise _changed_meanwhile()
    return current


def _changed_meanwhile() -> RequestError:
    return RequestError(409, "concurrent-change", "This knowledge base changed meanwhile; read it again and retry.")


async def _heed_limits(api: Services, kb: KnowledgeBase) -> None:
    """Let what waits for the old limits try the new ones now. After a crash before this it waits as it was told to."""
    await rate_limits.forget(api.database, Bucket.of_knowledge_base(kb.organization_id, kb.kb_id, kb.rate_limits))
    await index_jobs.make_due(api.database, kb.organization_id, error_type="rate_limited", kb_id=kb.kb_id)


async def _fields(api: Services, kb: KnowledgeBase, asked: ChangeKnowledgeBase) -> dict[str, Any]:
    """Return what is to be written: the fields that were sent and differ."""
    said = {name: getattr(asked, name) for name in asked.model_fields_set}
    if "max_chunks_per_document" in said:
        said["max_chunks_per_document"] = allowed_max_chunks(api, asked.max_chunks_per_document)
    fields: dict[str, Any] = {name: value for name, value in said.items() if value != getattr(kb, name)}
    if "filterable_metadata" in fields:
        fields |= _filterable(kb, fields.pop("filterable_metadata"))
    if "rate_limits" in fields:
        fields["rate_limits"] = asked.rate_limits.model_dump(exclude_none=True)
    if "tag_ids" in fields:
        fields["tag_ids"] = list(await known_tags(api.database, kb.organization_id, asked.tag_ids))
        if set(fields["tag_ids"]) == set(kb.tag_ids):
            del fields["tag_ids"]
    return fields


def _filterable(kb: KnowledgeBase, keys: Sequence[str]) -> dict[str, Any]:
    """New keys wait for the search indexes, which the life cycle brings up to date; those left out end at once."""
    wanted = list(dict.fromkeys(keys))
    if set(wanted) == set(kb.filterable_metadata):
        return {}
    ready = set(kb.filterable_metadata) - set(kb.filters_building)
    return {"filterable_metadata": wanted, "filters_building": [key for key in wanted if key not in ready]}


async def _store(api: Services, kb: KnowledgeBase, fields: dict[str, Any], *, retag: bool) -> KnowledgeBase | None:
    """None if the tags changed, or the KB was deleted, since `kb` was read."""
    # Documents that had too many chunks may fit now.
    more_fits = fields.get("max_chunks_per_document", 0) > kb.max_chunks_per_document

    async def store(session: MongoSession) -> KnowledgeBase | None:
        changed = await knowledge_bases.change(api.database, session, kb, fields, raise_tags_version=retag)
        if changed is None:
            return None
        if retag:
            await kb_slots.set_tags_version(api.database, session, kb.organization_id, kb.kb_id, changed.tags_version)
        if retag or more_fits:
            changed = await _scan(api, session, changed)
        outcome = KnowledgeBaseChanged(organization_id=kb.organization_id, kb_id=kb.kb_id)
        await announce(api.database, session, Announcement(outcome, seq=changed.tags_version), source=SOURCE)
        return changed

    if retag:
        await kb_slots.hold(api.database, kb.organization_id, kb.kb_id)
    return await in_transaction(api.database, store)


async def _scan(api: Services, session: MongoSession, kb: KnowledgeBase) -> KnowledgeBase:
    await backfills.start(api.database, session, kb.organization_id, kb.kb_id, traceparent=tracing.current())
    if kb.status is not Status.ACTIVE:
        return kb
    return await knowledge_bases.change(api.database, session, kb, {"status": Status.INDEXING}) or kb
