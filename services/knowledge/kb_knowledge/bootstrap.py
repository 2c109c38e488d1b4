"""Constructs the clients of this service and wires them. Nothing else does."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from fastapi import FastAPI

from kb_contracts import topics
from kb_knowledge import (
    check_in_routes,
    entity_routes,
    entry_routes,
    graph_routes,
    import_routes,
    mcp_server_routes,
    source_routes,
)
from kb_knowledge.apply_outcomes import OutcomeHandler
from kb_knowledge.embedding_providers import EmbeddingProviders
from kb_knowledge.import_knowledge import KnowledgeImporter
from kb_knowledge.indexes import COLLECTIONS
from kb_knowledge.mcp_header_keys import McpHeaderKeys
from kb_knowledge.remove_source_kinds import SourceKindRemover
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.structure_text import TextStructurer
from kb_knowledge.watch_pending import watch_pending
from kb_knowledge.write_entries import EntryWriter
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import bundled_models
from kb_shared.http import application, server
from kb_shared.http.dependencies import provide
from kb_shared.http.health import Readiness, Ready, mongodb_answers
from kb_shared.http.request_limits import RequestLimits, limit_of_administration
from kb_shared.kafka.bootstrap import create_kafka_watch, create_producer, prepare_topics
from kb_shared.kafka.consumer import Consumer
from kb_shared.messaging.dead_letters import DeadLetterPublisher
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema_version
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import create_indexes
from kb_shared.secrets.key_ring import KeyRing
from kb_shared.service import process

GROUP_OUTCOMES: Final = "kb-knowledge-outcomes"
TOPICS_OF_GROUPS: Final[Mapping[str, Sequence[topics.Topic]]] = {GROUP_OUTCOMES: [topics.KB_EVENTS]}
ROUTERS: Final = (
    entry_routes.router,
    entity_routes.router,
    graph_routes.router,
    import_routes.router,
    check_in_routes.router,
    source_routes.router,
    mcp_server_routes.router,
)


@dataclass(frozen=True, slots=True)
class KnowledgeService:
    """The parts of the service, constructed and not yet running."""

    settings: KnowledgeSettings
    database: Database
    chat: Chat
    _readiness: Readiness = field(default_factory=Readiness)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. If one part fails permanently, all of them end, and the process is restarted."""
        source_kinds = SourceKindRemover(self.database, EntryWriter(self.database, self.settings))
        app = create_app(
            self.settings,
            database=self.database,
            chat=self.chat,
            source_kinds=source_kinds,
            ready=self._readiness.why_not_ready,
        )
        async with asyncio.TaskGroup() as parts:
            parts.create_task(server.run(app, self.settings, stop))
            parts.create_task(self._work(stop, source_kinds))

    async def _work(self, stop: asyncio.Event, source_kinds: SourceKindRemover) -> None:
        """Do all that is not the answer to a request, once it is known that this code may work with the data."""
        if not await process.retry_until_done(stop, self._prepare, note=self._readiness.wait_for):
            return
        # Without a broker, entries are stored and read, and their events wait in the outbox.
        self._readiness.started(mongodb_answers(self.database))
        async with asyncio.TaskGroup() as parts:
            interval_s = self.settings.pending_check_interval_s
            watching = [
                parts.create_task(watch_pending(self.database, interval_s=interval_s)),
                parts.create_task(source_kinds.run(interval_s=interval_s)),
            ]
            parts.create_task(self._consume(stop))
            await stop.wait()
            for each in watching:
                each.cancel()

    async def _prepare(self) -> None:
        with mongo_errors():
            await schema_version.check(self.database)
            await create_indexes(self.database, COLLECTIONS)
            await _create_header_keys(self.settings).reseal(self.database)

    async def _consume(self, stop: asyncio.Event) -> None:
        """Read the outcomes of documents, as soon as there is a broker."""
        producer = create_producer(self.settings)

        async def connect() -> None:
            await prepare_topics(self.settings)
            await producer.start()

        if not await process.retry_until_done(stop, connect):
            return
        kafka = asyncio.create_task(create_kafka_watch(self.settings, groups=TOPICS_OF_GROUPS).run())
        try:
            prefix = self.settings.kafka_topic_prefix
            letters = DeadLetterPublisher(self.database, producer, topic_prefix=prefix)
            await run_all_or_cancel([create_consumer(self.settings, OutcomeHandler(self.database), letters).run(stop)])
        finally:
            kafka.cancel()
            await producer.stop()


def create_consumer(
    settings: KnowledgeSettings, handler: OutcomeHandler, dead_letters: DeadLetterPublisher
) -> Consumer:
    """Construct the consumer of `kb-events`."""
    prefix = settings.kafka_topic_prefix
    return Consumer(
        handler,
        dead_letters,
        topics=[prefix + topic.name for topic in TOPICS_OF_GROUPS[GROUP_OUTCOMES]],
        group_id=prefix + GROUP_OUTCOMES,
        connection=settings.kafka_connection,
        session_timeout_ms=settings.kafka_session_timeout_ms,
        fetch_max_wait_ms=settings.kafka_fetch_max_wait_ms,
        leave_group=settings.kafka_leave_group,
        unreadable_tries=settings.kafka_unreadable_tries,
    )


def create_app(
    settings: KnowledgeSettings,
    *,
    database: Database,
    chat: Chat,
    source_kinds: SourceKindRemover | None = None,
    ready: Ready | None = None,
) -> FastAPI:
    """Connect the routes to clients that exist already."""
    app = application.create_app("Curated knowledge", settings, database=database, routers=ROUTERS, ready=ready)
    catalogue = ModelCatalogue(
        bundled_models(),
        local_models_api_base=settings.local_models_api_base,
        environment=os.environ,
        late_models=settings.late_models,
    )
    writer = EntryWriter(database, settings)
    importer = KnowledgeImporter(database, writer, settings)
    provide(
        app,
        settings,
        writer,
        importer,
        source_kinds or SourceKindRemover(database, writer),
        TextStructurer(database, chat, importer=importer, settings=settings),
        EmbeddingProviders(catalogue),
        _create_header_keys(settings),
        RequestLimits(database, {"administration": limit_of_administration(settings)}),
    )
    return app


def _create_header_keys(settings: KnowledgeSettings) -> McpHeaderKeys:
    keys = settings.provider_keys
    return McpHeaderKeys(KeyRing.parse(keys.get_secret_value()) if keys else None)


@asynccontextmanager
async def build(settings: KnowledgeSettings) -> AsyncIterator[KnowledgeService]:
    """Construct the service and its clients, which are closed on leaving."""
    database = mongo.connect(settings)
    chat = create_chat(database, settings)
    try:
        yield KnowledgeService(settings, database, chat)
    finally:
        await chat.close()
        await database.client.close()
