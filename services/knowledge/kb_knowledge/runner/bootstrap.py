"""Constructs the clients of the runner and wires them. Nothing else does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_knowledge.indexes import COLLECTIONS
from kb_knowledge.runner.count_runs import keep_counting_open
from kb_knowledge.runner.open_reader import ReaderSettings, SourceReaders
from kb_knowledge.runner.run_source import SourceRunLimits, SourceRunner
from kb_knowledge.runner.settings import RunnerSettings
from kb_knowledge.runner.work_on_runs import RunQueue
from kb_knowledge.sources.guarded_http import FetchLimits, GuardedHttp
from kb_knowledge.sources.source_items import SourceEntries
from kb_knowledge.store import source_files, source_runs
from kb_knowledge.store.knowledge_sources import KnowledgeSource
from kb_knowledge.store_source_entries import EntriesOfSource
from kb_knowledge.write_entries import EntryWriter
from kb_shared.http.health import Readiness, mongodb_answers, serve_health_during
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema_version
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import create_indexes
from kb_shared.mongo.work_watch import WorkWatch
from kb_shared.secrets.key_ring import KeyRing
from kb_shared.service import process

_UNUSED_FILES_EVERY_S: Final = 3_600.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SourceRunnerProcess:
    """The parts of the runner, constructed and not yet running."""

    settings: RunnerSettings
    database: Database
    queue: RunQueue
    readiness: Readiness = field(default_factory=Readiness)

    async def run(self, stop: asyncio.Event) -> None:
        """Read sources until `stop`; what is being read then is continued by another runner, or by the next start."""
        await serve_health_during(self.settings, self.readiness.why_not_ready, self._work(stop))

    async def _work(self, stop: asyncio.Event) -> None:
        if not await process.retry_until_done(stop, self._prepare, note=self.readiness.wait_for):
            return
        self.readiness.started(mongodb_answers(self.database))
        async with asyncio.TaskGroup() as parts:
            watch = WorkWatch(self.database, {source_runs.NAME: (self.queue.signal, source_runs.WORK)})
            work = (self.queue.run(), watch.run(), self._keep_deleting_files(), keep_counting_open(self.database))
            working = [parts.create_task(part) for part in work]
            await stop.wait()
            for task in working:
                task.cancel()

    async def _prepare(self) -> None:
        with mongo_errors():
            await schema_version.check(self.database)
            await create_indexes(self.database, COLLECTIONS)

    async def _keep_deleting_files(self) -> None:
        while True:
            try:
                await source_files.delete_unused(self.database)
            except PyMongoError as error:
                _log.warning("source_files.not_deleted", error=type(error).__name__)
            await asyncio.sleep(_UNUSED_FILES_EVERY_S)


@asynccontextmanager
async def build(settings: RunnerSettings) -> AsyncIterator[SourceRunnerProcess]:
    """Construct the runner and its clients, which are closed on leaving."""
    database = mongo.connect(settings)
    http = GuardedHttp(allow_private=settings.allow_private_addresses)
    try:
        owner = str(uuid4())
        runner = _create_runner(settings, database, http, owner=owner)
        queue = RunQueue(
            database, runner, owner=owner, at_once=settings.source_runs_at_once, clock=lambda: datetime.now(UTC)
        )
        yield SourceRunnerProcess(settings, database, queue)
    finally:
        await http.close()
        await database.client.close()


def _create_runner(settings: RunnerSettings, database: Database, http: GuardedHttp, *, owner: str) -> SourceRunner:
    keys = settings.provider_keys
    reader_settings = ReaderSettings(
        allow_private=settings.allow_private_addresses,
        crawl_delay_s=settings.crawl_delay_s,
        max_items=settings.source_max_items,
        page_limits=FetchLimits(),
    )
    key_ring = KeyRing.parse(keys.get_secret_value()) if keys else None
    writer = EntryWriter(database, settings)

    def open_entries(source: KnowledgeSource) -> SourceEntries:
        return EntriesOfSource(database, writer, source, settings.max_knowledge_entries)

    return SourceRunner(
        database,
        owner=owner,
        limits=SourceRunLimits(settings.source_run_max_s, settings.source_run_max_bytes),
        open_reader=SourceReaders(database, http, key_ring, reader_settings).open,
        open_entries=open_entries,
    )
