"""Stores runs: once when they begin, and once more, completely, when they end."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog
from pymongo.errors import PyMongoError

from kb_search.runs.passages import CitedPassage
from kb_search.store import runs
from kb_search.store.runs import Run, RunStatus
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo import citations
from kb_shared.mongo.citations import RunCitation
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import now
from kb_shared.observability.metrics import RUN_ITERATIONS, RUN_SECONDS, RUNS

log = structlog.get_logger()


class RunRecorder:
    """Stores the runs of one process, counts them and logs them."""

    def __init__(self, database: Database, *, citations_kept: timedelta) -> None:
        self._database = database
        self._citations_kept = citations_kept
        self._storing: set[asyncio.Task[None]] = set()

    async def begin(self, run: Run) -> None:
        """Store a run that begins."""
        await runs.begin(self._database, run)

    async def finish(self, run: Run, seen: Sequence[CitedPassage]) -> None:
        """Store a run that has ended with the passages its model saw, even if the caller is cancelled meanwhile."""
        task = asyncio.create_task(self._store(run, seen))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait until all runs that ended are stored."""
        await run_all(self._storing)

    async def _store(self, run: Run, seen: Sequence[CitedPassage]) -> None:
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
            grounded=run.grounded,
            tokens=run.prompt_tokens + run.completion_tokens,
            spus=run.spus,
        )
        try:
            await runs.finish(self._database, run)
        except PyMongoError:
            log.warning("run.store_failed", run_id=run.run_id, exc_info=True)
            return
        if run.status is RunStatus.COMPLETED and seen:
            await self._store_citations(run, seen)

    async def _store_citations(self, run: Run, seen: Sequence[CitedPassage]) -> None:
        try:
            await citations.insert(self._database, build_citations(run, seen, kept=self._citations_kept))
        except PyMongoError as error:
            # The text of the error could contain names of documents.
            log.warning("run.citations_lost", run_id=run.run_id, error_type=type(error).__name__)


def build_citations(run: Run, seen: Sequence[CitedPassage], *, kept: timedelta) -> list[RunCitation]:
    """Return a row for each chunk that the model of a run saw."""
    answered_at = run.finished_at or now()
    cited = {(each.kb_id, each.citation) for each in run.citations}
    return [
        RunCitation(
            organization_id=run.organization_id,
            run_id=run.run_id,
            thread_id=run.thread_id,
            agent_id=run.agent_id,
            origin=run.origin,
            kb_id=passage.kb_id,
            document_id=passage.document_id,
            document_name=passage.document_name,
            chunk_id=passage.citation,
            in_context=True,
            cited=(passage.kb_id, passage.citation) in cited,
            answered_at=answered_at,
            expires_at=answered_at + kept,
        )
        for passage in seen
    ]
