"""Shows why entries stay pending: a job that waits for its provider announces nothing until it succeeds or fails."""

import asyncio
from datetime import timedelta
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.errors import TransientError
from kb_shared.mongo import index_jobs, knowledge_bases, knowledge_entries
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_entries import EmbeddingError, EntryKey
from kb_shared.observability.metrics import ENTRY_OUTCOMES

_AT_ONCE: Final = 500

log = structlog.get_logger()


async def watch_pending(database: Database, *, interval_s: float) -> None:
    """Look again and again; cancel to stop."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            with mongo_errors():
                await note_waiting(database, age=timedelta(seconds=interval_s))
        except (PyMongoError, TransientError) as error:
            log.warning("entries.pending_not_watched", error=type(error).__name__)


async def note_waiting(database: Database, *, age: timedelta) -> int:
    """Set entries that are pending for longer than `age` to `error` if an attempt has failed; return their number.

    They become `ready` when a later attempt succeeds.
    """
    noted = 0
    for key, revision in await knowledge_entries.find_pending(database, age=age, limit=_AT_ONCE):
        error = await _find_error(database, key)
        if error is not None:
            noted += await knowledge_entries.set_status(
                database, key, "error", revision=revision, error=error, only_from="pending"
            )
    if noted:
        ENTRY_OUTCOMES.labels("waiting").inc(noted)
    return noted


async def _find_error(database: Database, key: EntryKey) -> EmbeddingError | None:
    kb = await knowledge_bases.find_knowledge(database, key.organization_id)
    if kb is None:
        return None
    membership = MembershipKey(key.organization_id, kb.kb_id, key.document.document_id)
    job = await index_jobs.find(database, membership)
    if job is None or job.error_type is None:
        return None
    return EmbeddingError(job.error_type, job.error_message or "", job.next_attempt_at)
