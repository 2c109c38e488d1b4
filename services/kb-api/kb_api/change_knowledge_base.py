"""Changes the mutable fields of a KB. New tags fence off work that was decided for the old ones."""

from collections.abc import Sequence
from typing import Any, Final

from kb_api.create_knowledge_base import allowed_max_chunks, require_known_tags
from kb_api.entries_knowledge_base import require_filters_of_entries, require_not_of_entries
from kb_api.life_cycle import LifeCycle
from kb_api.source import SOURCE
from kb_contracts.api.knowledge_bases import ChangeKnowledgeBase
from kb_contracts.outcomes import KnowledgeBaseChanged
from kb_shared.errors import RequestError
from kb_shared.http.authentication import Caller
from kb_shared.http.changes import commit_change
from kb_shared.http.preconditions import ExpectedVersions, require_version
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, index_jobs, kb_slots, knowledge_bases, rate_limits
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, KnowledgeBaseKind, Status
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.observability import tracing

_WHAT: Final = "knowledge base"


async def change_knowledge_base(
    database: Database,
    caller: Caller,
    *,
    kb_id: str,
    requested: ChangeKnowledgeBase,
    max_chunks_limit: int,
    life_cycle: LifeCycle,
    expected: ExpectedVersions = None,
) -> KnowledgeBase:
    """Write the fields of `requested` that differ, and return the changed KB.

    Args:
        max_chunks_limit: deployment's limit of `max_chunks_per_document`.
        expected: versions of the KB that may be overwritten.

    Raises:
        NotFound: there is none.
        RequestError: 422 `unknown-tag`, `reserved-id`, `validation-error`; 409 `concurrent-change`,
            `knowledge-kb-fixed`; 412 `precondition-failed`.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    require_version(kb.version, expected, what=_WHAT)
    if "tag_ids" in requested.model_fields_set and set(requested.tag_ids) != set(kb.tag_ids):
        require_not_of_entries(kb)
    if "filterable_metadata" in requested.model_fields_set:
        require_filters_of_entries(kb, requested.filterable_metadata)
    fields = await _changed_fields(database, kb, requested=requested, max_chunks_limit=max_chunks_limit)
    if not fields:
        current = await _confirm_unchanged(database, kb, requested=requested, max_chunks_limit=max_chunks_limit)
        require_version(current.version, expected, what=_WHAT)
        return current
    fields["updated_by"] = caller.key_id
    changed = await _store(database, kb, fields=fields, retag="tag_ids" in fields, expected=expected)
    if changed is None:
        current = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
        require_version(current.version, expected, what=_WHAT)
        raise _changed_meanwhile()
    if "rate_limits" in fields:
        await _apply_new_limits(database, changed)
    life_cycle.wake()
    return changed


async def _confirm_unchanged(
    database: Database, kb: KnowledgeBase, *, requested: ChangeKnowledgeBase, max_chunks_limit: int
) -> KnowledgeBase:
    """Return a KB that needs no change, read in a transaction: its commit confirms that a majority has it."""

    async def read(session: MongoSession) -> KnowledgeBase:
        return await knowledge_bases.get(database, kb.key, session=session)

    current = await in_transaction(database, read)
    if await _changed_fields(database, current, requested=requested, max_chunks_limit=max_chunks_limit):
        raise _changed_meanwhile()
    return current


def _changed_meanwhile() -> RequestError:
    return RequestError(
        409, "concurrent-change", "This knowledge base was changed by another request; read it again and retry."
    )


async def _apply_new_limits(database: Database, kb: KnowledgeBase) -> None:
    """Retry now what waits for the old limits. After a crash before this, it waits until the time set for it."""
    await rate_limits.reset(database, Bucket.of_knowledge_base(kb.key, kb.rate_limits))
    await index_jobs.make_due(database, kb.organization_id, error_type="rate_limited", kb_id=kb.kb_id)


async def _changed_fields(
    database: Database, kb: KnowledgeBase, *, requested: ChangeKnowledgeBase, max_chunks_limit: int
) -> dict[str, Any]:
    """Return the fields to write: those that were sent and differ."""
    sent = {name: getattr(requested, name) for name in requested.model_fields_set}
    if "max_chunks_per_document" in sent:
        sent["max_chunks_per_document"] = allowed_max_chunks(requested.max_chunks_per_document, limit=max_chunks_limit)
    fields: dict[str, Any] = {name: value for name, value in sent.items() if value != getattr(kb, name)}
    if "filterable_metadata" in fields:
        fields |= _filterable(kb, fields.pop("filterable_metadata"))
    if "rate_limits" in fields:
        fields["rate_limits"] = requested.rate_limits.model_dump(exclude_none=True)
    if kb.kind is KnowledgeBaseKind.KNOWLEDGE:
        fields.pop("tag_ids", None)
    if "tag_ids" in fields:
        fields["tag_ids"] = list(await require_known_tags(database, kb.organization_id, tag_ids=requested.tag_ids))
        if set(fields["tag_ids"]) == set(kb.tag_ids):
            del fields["tag_ids"]
    return fields


def _filterable(kb: KnowledgeBase, keys: Sequence[str]) -> dict[str, Any]:
    """Return the fields for new filter keys: these wait for the search indexes, and keys left out end at once."""
    wanted = list(dict.fromkeys(keys))
    if set(wanted) == set(kb.filterable_metadata):
        return {}
    ready = set(kb.filterable_metadata) - set(kb.filters_building)
    return {"filterable_metadata": wanted, "filters_building": [key for key in wanted if key not in ready]}


async def _store(
    database: Database, kb: KnowledgeBase, *, fields: dict[str, Any], retag: bool, expected: ExpectedVersions
) -> KnowledgeBase | None:
    """Write `fields`. Returns None if the tags changed, or the KB was deleted, since `kb` was read."""
    # Documents that had too many chunks may fit now.
    more_fits = fields.get("max_chunks_per_document", 0) > kb.max_chunks_per_document
    # Once credentials are refused, nothing is indexed that was decided before, without a check.
    fences = retag or "refuse_sensitive" in fields

    async def store(session: MongoSession) -> KnowledgeBase | None:
        changed = await knowledge_bases.change(
            database, session, kb, fields=fields, raise_tags_version=fences, versions=expected
        )
        if changed is None:
            return None
        if fences:
            await kb_slots.set_tags_version(database, session, kb.key, tags_version=changed.tags_version)
        if fences or more_fits:
            changed = await _start_scan(database, session, kb=changed)
        outcome = KnowledgeBaseChanged(organization_id=kb.organization_id, kb_id=kb.kb_id)
        await announce(database, session, Announcement(outcome, seq=changed.tags_version), source=SOURCE)
        return changed

    if fences:
        await kb_slots.block_swaps(database, kb.key)
    return await commit_change(database, store)


async def _start_scan(database: Database, session: MongoSession, *, kb: KnowledgeBase) -> KnowledgeBase:
    await backfills.start(database, session, kb.key, traceparent=tracing.current())
    if kb.status is not Status.ACTIVE:
        return kb
    return await knowledge_bases.change(database, session, kb, fields={"status": Status.INDEXING}) or kb
