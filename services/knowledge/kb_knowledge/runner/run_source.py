"""Carries out a run of a source, from the claim to the end, under limits and while the lease is held."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_knowledge.runner.count_runs import count_ended
from kb_knowledge.runner.hold_run import LEASE, CancelRequested, RunTaken, work_while_held
from kb_knowledge.runner.redirected_pages import find_redirected_pages
from kb_knowledge.runner.run_outcome import RunOutcome
from kb_knowledge.runner.settle_held_items import settle_held_items
from kb_knowledge.sources.frontier import Frontier, FrontierInMemory
from kb_knowledge.sources.preview_source import MAX_PREVIEW_ITEMS, NoKnownItems, PreviewedEntries
from kb_knowledge.sources.read_items import ReadLimits, SourceUnusable, read_items
from kb_knowledge.sources.record_item import ItemRecorder
from kb_knowledge.sources.removals import Removals, removals
from kb_knowledge.sources.source_items import SourceEntries
from kb_knowledge.sources.source_reader import SourceReader
from kb_knowledge.store import knowledge_sources, source_runs
from kb_knowledge.store.crawl_frontier import StoredFrontier
from kb_knowledge.store.knowledge_sources import EndedRun, KnowledgeSource
from kb_knowledge.store.source_items import StoredItems
from kb_knowledge.store.source_runs import RunEnd, RunTrigger, SourceRun, SourceRunStatus
from kb_shared import failpoints
from kb_shared.errors import TransientError
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.stored_time import age_s, now
from kb_shared.observability.metrics import SOURCE_RUNS_CONTINUED

MAX_CLAIMS: Final = 20
"""Number of runners that may continue a run, before it ends as an error."""
PREVIEW_WITHIN_S: Final = 10.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReaderTools:
    """Tools with which a reader of a source works in one run."""

    frontier: Frontier
    recorder: ItemRecorder


@dataclass(frozen=True, slots=True)
class OpenedReader:
    reader: SourceReader
    max_items: int


OpenReader = Callable[[KnowledgeSource, ReaderTools], AbstractAsyncContextManager[OpenedReader]]


@dataclass(frozen=True, slots=True)
class SourceRunLimits:
    max_s: float
    max_bytes: int


class SourceRunner:
    """Carries out runs; several at a time."""

    def __init__(
        self,
        database: Database,
        *,
        owner: str,
        limits: SourceRunLimits,
        open_reader: OpenReader,
        open_entries: Callable[[KnowledgeSource], SourceEntries],
    ) -> None:
        """Construct it.

        Args:
            database: where runs and items are.
            owner: identifies this process.
            limits: of each run.
            open_reader: makes what reads a source.
            open_entries: makes what stores the entries of a source.
        """
        self._database = database
        self._owner = owner
        self._limits = limits
        self._open_reader = open_reader
        self._open_entries = open_entries

    async def run(self, run: SourceRun) -> None:
        """Carry out a run that this process has claimed. After a passing failure, another claim continues it."""
        bound = {"organization_id": run.organization_id, "source_id": run.source_id, "run_id": run.run_id}
        with structlog.contextvars.bound_contextvars(**bound):
            await self._carry_out(run)

    async def _carry_out(self, run: SourceRun) -> None:
        if run.claims > 1:
            SOURCE_RUNS_CONTINUED.inc()
        await failpoints.reach("source.after_claim")
        try:
            source = await knowledge_sources.find(self._database, run.key.source)
            if source is None:
                await self._finish(run, RunOutcome(problem="the source was deleted", is_unusable=True))
            elif run.trigger is RunTrigger.PREVIEW:
                await self._preview(run, source)
            else:
                outcome = await self._read(run, source)
                _log.info("source.read", status=outcome.status, counts=dict(outcome.totals.outcomes))
        except RunTaken:
            _log.warning("source.lease_lost")
        except (PyMongoError, TransientError) as error:
            _log.warning("source.interrupted", error=type(error).__name__)
            with suppress(PyMongoError):
                await source_runs.release(self._database, run, owner=self._owner)

    async def _read(self, run: SourceRun, source: KnowledgeSource) -> RunOutcome:
        frontier = StoredFrontier(self._database, run)
        recorder = ItemRecorder(self._open_entries(source), StoredItems(self._database, source.key))
        if run.claims > MAX_CLAIMS:
            outcome = RunOutcome(problem="the runner ended each time the source was read", is_unusable=True)
        else:
            left_s = self._limits.max_s - (age_s(run.started_at) if run.started_at else 0.0)
            reading = partial(self._read_items, run, source, ReaderTools(frontier, recorder))
            outcome = await self._read_within(left_s, run, reading)
        await settle_held_items(
            frontier, recorder, renew=partial(self._renew, run), messages=_RunMessages(self._database, run)
        )
        outcome.totals = await frontier.totals()
        outcome.first_failure = await frontier.find_first_failure()
        removed = Removals(())
        if outcome.status is SourceRunStatus.OK:
            removed = await _remove_gone(outcome, frontier, recorder)
        await failpoints.reach("source.before_end")
        entries = sum(map(len, (await recorder.known_items.find_entry_ids()).values()))
        await self._finish(run, outcome, removed=removed, entry_count=entries)
        count_ended(run, source.kind, outcome)
        await failpoints.reach("source.after_end")
        # After a crash, MongoDB deletes the rest later.
        await frontier.delete()
        return outcome

    async def _read_items(
        self, run: SourceRun, source: KnowledgeSource, tools: ReaderTools, *, max_items: int | None = None
    ) -> str | None:
        async with self._open_reader(source, tools) as opened:
            await opened.reader.begin()
            return await read_items(
                tools.frontier,
                opened.reader.read,
                limits=ReadLimits(max_items or opened.max_items, self._limits.max_bytes),
                messages=_RunMessages(self._database, run),
            )

    async def _read_within(
        self, left_s: float, run: SourceRun, reading: Callable[[], Awaitable[str | None]]
    ) -> RunOutcome:
        outcome = RunOutcome()

        async def read() -> None:
            outcome.problem = await reading()

        try:
            async with asyncio.timeout(max(left_s, 0.0)) as limit:
                await work_while_held(self._database, run, read, owner=self._owner)
        except SourceUnusable as unusable:
            outcome.problem, outcome.is_unusable = str(unusable), True
        except CancelRequested:
            outcome.problem, outcome.cancelled = "it was cancelled; what came before is kept", True
        except TimeoutError:
            if not limit.expired():
                raise
            outcome.problem = "the time limit was reached; other items were not read"
        return outcome

    async def _renew(self, run: SourceRun) -> None:
        """Keep the lease of a run. Raises RunTaken."""
        if await source_runs.renew(self._database, run, owner=self._owner, lease=LEASE) is None:
            raise RunTaken

    async def _preview(self, run: SourceRun, source: KnowledgeSource) -> None:
        entries, frontier = PreviewedEntries(), FrontierInMemory()
        tools = ReaderTools(frontier, ItemRecorder(entries, NoKnownItems()))
        reading = partial(self._read_items, run, source, tools, max_items=MAX_PREVIEW_ITEMS)
        outcome = await self._read_within(PREVIEW_WITHIN_S, run, reading)
        outcome.totals, outcome.first_failure = await frontier.totals(), await frontier.find_first_failure()
        await self._finish(run, outcome, preview=entries)
        count_ended(run, source.kind, outcome)

    async def _finish(
        self,
        run: SourceRun,
        outcome: RunOutcome,
        *,
        removed: Removals | None = None,
        entry_count: int = 0,
        preview: PreviewedEntries | None = None,
    ) -> None:
        """Store how a run ended, in the run and in its source. Raises RunTaken."""
        end = RunEnd(
            outcome.status,
            outcome.error,
            counts={str(each): count for each, count in outcome.totals.outcomes.items()},
            bytes_read=outcome.totals.bytes_read,
            removed=len(removed.keys) if removed else 0,
            withheld=removed.withheld if removed else 0,
            warnings=outcome.totals.warned,
            cancelled=outcome.cancelled,
            preview=preview.items if preview else (),
        )

        async def store(session: MongoSession) -> bool:
            if not await source_runs.finish(self._database, session, run, end=end, owner=self._owner):
                return False
            if preview is None:
                ended = EndedRun(now(), outcome.status, outcome.error, entry_count)
                await knowledge_sources.record_run(self._database, session, run.key.source, ended=ended)
            return True

        if not await in_transaction(self._database, store):
            raise RunTaken


async def _remove_gone(outcome: RunOutcome, frontier: StoredFrontier, recorder: ItemRecorder) -> Removals:
    """Delete the entries of items that are gone, unless it is doubtful. After a crash, the rest is deleted."""
    redirected = await find_redirected_pages(frontier, recorder)
    if redirected.problem:
        outcome.problem = redirected.problem
        return Removals(())
    entry_ids = await recorder.known_items.find_entry_ids()
    decided = removals(entry_ids, await frontier.find_seen_keys(), moved=redirected.moved)
    for key in decided.keys:
        for entry_id in entry_ids[key]:
            await recorder.entries.delete(entry_id)
        await failpoints.reach("source.after_removal")
        await recorder.known_items.delete(key)
    if decided.withheld:
        outcome.problem = (
            f"{decided.withheld} items are gone, which are more than 30 % and more than 10, so their entries "
            "stay; delete them, or make the items available again"
        )
    return decided


@dataclass(frozen=True, slots=True)
class _RunMessages:
    database: Database
    run: SourceRun

    async def add(self, message: str) -> None:
        await source_runs.add_message(self.database, self.run, message)
