"""Requests the runs of sources whose time has come. Of all runs that were missed, one is requested."""

from datetime import datetime
from typing import Final

import structlog

from kb_knowledge.sources.schedule import InvalidCron, next_run_at
from kb_knowledge.store import knowledge_sources, source_runs
from kb_knowledge.store.knowledge_sources import KnowledgeSource
from kb_knowledge.store.source_runs import RunTrigger, SourceIsRunning
from kb_shared.mongo.database import Database, MongoSession, in_transaction

_AT_ONCE: Final = 100

_log = structlog.get_logger()


async def request_due_runs(database: Database, *, now: datetime) -> int:
    """Request a run of each source that should have run by `now`; return their number.

    Run and next time are stored together: after a crash, a run is neither missing nor there twice.
    """
    due = await knowledge_sources.find_due(database, now=now, limit=_AT_ONCE)
    return sum([await _request_run(database, source, now=now) for source in due])


async def _request_run(database: Database, source: KnowledgeSource, *, now: datetime) -> bool:
    next_time = _next_time(source, now=now)

    async def store(session: MongoSession) -> bool:
        if not await knowledge_sources.set_next_run(database, session, source, next_run_at=next_time):
            return False
        await source_runs.request(database, session, source.key, trigger=RunTrigger.SCHEDULE, requested_by=None)
        return True

    async def skip(session: MongoSession) -> bool:
        await knowledge_sources.set_next_run(database, session, source, next_run_at=next_time)
        return False

    try:
        return await in_transaction(database, store)
    except SourceIsRunning:
        # The run that has not ended reads what this one would read.
        return await in_transaction(database, skip)


def _next_time(source: KnowledgeSource, *, now: datetime) -> datetime | None:
    if source.cron_expression is None:
        return None
    try:
        return next_run_at(source.cron_expression, source_id=source.source_id, after=now)
    except InvalidCron:
        _log.warning("source.schedule_unusable", source_id=source.source_id, organization_id=source.organization_id)
        return None
