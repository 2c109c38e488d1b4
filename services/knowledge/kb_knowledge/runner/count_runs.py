"""Counts runs of sources for the metrics: those that end here, and those of all runners that have not ended."""

import asyncio
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_knowledge.runner.run_outcome import RunOutcome
from kb_knowledge.store import source_runs
from kb_knowledge.store.knowledge_sources import SourceKind
from kb_knowledge.store.source_runs import RunTrigger, SourceRun
from kb_shared.errors import TransientError
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import age_s
from kb_shared.observability.metrics import (
    SOURCE_OLDEST_WAITING_SECONDS,
    SOURCE_RUN_SECONDS,
    SOURCE_RUNS,
    SOURCE_RUNS_OPEN,
)

COUNT_EVERY_S: Final = 15.0

_log = structlog.get_logger()


def count_ended(run: SourceRun, kind: SourceKind, outcome: RunOutcome) -> None:
    """Count a run that has just ended."""
    SOURCE_RUNS.labels(kind, run.trigger, "cancelled" if outcome.cancelled else outcome.status).inc()
    if run.started_at is not None and run.trigger is not RunTrigger.PREVIEW:
        SOURCE_RUN_SECONDS.labels(kind).observe(age_s(run.started_at))


async def keep_counting_open(database: Database) -> None:
    """Count again and again; cancel to stop. Every runner counts, and exports the same total."""
    while True:
        try:
            await count_open(database)
        except (PyMongoError, TransientError) as error:
            # The figures stay as they were.
            _log.warning("source.count_failed", error=type(error).__name__)
        await asyncio.sleep(COUNT_EVERY_S)


async def count_open(database: Database) -> None:
    """Count once, and set the gauges."""
    found = await source_runs.count_open(database)
    SOURCE_RUNS_OPEN.labels("waiting").set(found.waiting)
    SOURCE_RUNS_OPEN.labels("running").set(found.running)
    SOURCE_OLDEST_WAITING_SECONDS.set(found.oldest_waiting_s)
