"""Counts documents, circuits and dead letters of the whole deployment by their states, for the metrics."""

import asyncio
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import Reason
from kb_contracts.topics import DOCUMENT_EVENTS, INDEX_BACKFILL, INDEX_REQUESTS, KB_EVENTS, KNOWLEDGE_DOCUMENT_EVENTS
from kb_shared.errors import TransientError
from kb_shared.mongo import circuits, dead_letters, index_jobs, kb_slots
from kb_shared.mongo.circuit import Cause
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import age_s
from kb_shared.observability.metrics import (
    CIRCUITS_OPEN,
    DLQ_DEPTH,
    DLQ_OLDEST_AGE_SECONDS,
    DOCUMENTS,
    OLDEST_UNINDEXED_AGE_SECONDS,
)

_CONSUMED: Final = (DOCUMENT_EVENTS, KNOWLEDGE_DOCUMENT_EVENTS, INDEX_REQUESTS, INDEX_BACKFILL, KB_EVENTS)
"""Topics whose records can become dead letters."""

log = structlog.get_logger()


async def keep_counting_states(database: Database, *, interval_s: float) -> None:
    """Count again and again; cancel to stop. Every replica counts, and exports the same total."""
    while True:
        try:
            await count_states(database)
        except (PyMongoError, TransientError) as error:
            # The figures stay as they were.
            log.warning("states.count_failed", error=type(error).__name__)
        await asyncio.sleep(interval_s)


async def count_states(database: Database) -> None:
    """Count once, and set the gauges."""
    jobs = await index_jobs.count_by_state(database)
    events = await index_jobs.find_oldest_events(database)
    indexed = await kb_slots.count_documents(database)
    open_circuits = await circuits.count_open(database)
    letters = await dead_letters.count_open(database)
    DOCUMENTS.labels("indexed").set(indexed)
    for state in index_jobs.IndexJobState:
        DOCUMENTS.labels(state).set(jobs[state])
    for path in Reason:
        OLDEST_UNINDEXED_AGE_SECONDS.labels(path).set(age_s(events[path]) if path in events else 0)
    for cause in Cause:
        CIRCUITS_OPEN.labels(cause).set(open_circuits.get(cause, 0))
    for topic in _CONSUMED:
        is_open = letters.get(topic.name)
        DLQ_DEPTH.labels(topic.name).set(is_open.letters if is_open else 0)
        DLQ_OLDEST_AGE_SECONDS.labels(topic.name).set(age_s(is_open.oldest) if is_open else 0)
