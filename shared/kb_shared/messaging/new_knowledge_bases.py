"""Stores all rows of a new KB in the transaction of the caller; the life cycle of kb-api continues from there."""

from kb_contracts.outcomes import KnowledgeBaseCreated
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import backfills, kb_slots, knowledge_bases
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing


async def store_new_knowledge_base(
    database: Database, session: MongoSession, kb: KnowledgeBase, *, source: str
) -> None:
    """Store a KB with its slots, the scan of its documents and the announcement.

    Args:
        database: that has the collections.
        session: in a transaction that also writes the row of the organization (`serialize_transactions`).
        kb: with the status `creating`.
        source: the CloudEvents `source` of the announcement.
    """
    await knowledge_bases.insert(database, session, kb)
    await kb_slots.create(database, session, kb.key, tags_version=kb.tags_version)
    await backfills.start(database, session, kb.key, traceparent=tracing.current())
    outcome = KnowledgeBaseCreated(organization_id=kb.organization_id, kb_id=kb.kb_id)
    await announce(database, session, Announcement(outcome, seq=1), source=source)
