"""Counts how many documents and circuits of the whole deployment are in which state, for the metrics."""

import asyncio

import structlog
from pymongo.errors import PyMongoError

from kb_shared.errors import TransientError
from kb_shared.mongo import circuits, index_jobs, kb_slots
from kb_shared.mongo.circuit import Cause
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import CIRCUITS_OPEN, DOCUMENTS

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
    indexed = await kb_slots.count_documents(database)
    open_circuits = await circuits.count_open(database)
    DOCUMENTS.labels("indexed").set(indexed)
    for state in index_jobs.IndexJobState:
        DOCUMENTS.labels(state).set(jobs[state])
    for cause in Cause:
        CIRCUITS_OPEN.labels(cause).set(open_circuits.get(cause, 0))
