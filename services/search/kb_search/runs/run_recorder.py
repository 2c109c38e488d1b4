"""Stores runs: once when they begin, and once more, completely, when they end."""

import asyncio

import structlog
from pymongo.errors import PyMongoError

from kb_search.store import runs
from kb_search.store.runs import Run
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import RUN_ITERATIONS, RUN_SECONDS, RUNS

log = structlog.get_logger()


class RunRecorder:
    """Stores the runs of one process, counts them and logs them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._storing: set[asyncio.Task[None]] = set()

    async def begin(self, run: Run) -> None:
        """Store a run that begins."""
        await runs.begin(self._database, run)

    async def finish(self, run: Run) -> None:
        """Store a run that has ended, even if the caller is cancelled while it waits here."""
        task = asyncio.create_task(self._store(run))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait until all runs that ended are stored."""
        await run_all(self._storing)

    async def _store(self, run: Run) -> None:
        RUNS.labels(run.status).inc()
        RUN_ITERATIONS.observe(run.iterations)
        if run.finished_at is not None:
            RUN_SECONDS.observe((run.finished_at - run.started_at).total_seconds())
        log.info(
            "run.finished",
            organization_id=run.organization_id,
            run_id=run.run_id,
            status=str(run.status),
            error_type=(run.error or {}).get("type"),
            iterations=run.iterations,
            tool_calls=len(run.tool_calls),
            citations=len(run.citations),
            tokens=run.prompt_tokens + run.completion_tokens,
            spus=run.spus,
        )
        try:
            await runs.finish(self._database, run)
        except PyMongoError:
            log.warning("run.store_failed", run_id=run.run_id, exc_info=True)
