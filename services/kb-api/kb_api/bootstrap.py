"""The only place that makes clients and wires them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from fastapi import FastAPI

from kb_api.admin_key import ensure_admin_key
from kb_api.learn_message_limits import keep_learning
from kb_api.life_cycle import LifeCycle
from kb_api.provider_keys import seal_again
from kb_api.routes import (
    api_keys,
    dead_letters,
    documents,
    documents_in_kb,
    embedding_models,
    jobs,
    knowledge_bases,
    llm_providers,
    tags,
    unsendable_messages,
    usage,
)
from kb_api.services import Services
from kb_api.settings import ApiSettings
from kb_api.stored_bytes import StoredBytes
from kb_api.watch_budgets import watch_budgets
from kb_shared import process
from kb_shared.embedding.bootstrap import create_embedder, create_key_ring
from kb_shared.embedding.embedder import Embedder
from kb_shared.http import application, server
from kb_shared.http.health import Readiness, Ready, mongodb_answers
from kb_shared.http.request_limits import RequestLimits, limit_of_administration
from kb_shared.kafka.bootstrap import create_producer, prepare_topics
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import database as mongo
from kb_shared.mongo import schema
from kb_shared.mongo.database import Database, mongo_errors

EMBEDDING_PATIENCE_S: Final = 5.0
"""A person waits for the model to answer."""


def create_app(services: Services, *, ready: Ready | None = None) -> FastAPI:
    app = application.create_app(
        "Knowledge bases",
        services.settings,
        database=services.database,
        routers=[
            knowledge_bases.router,
            documents.router,
            documents_in_kb.router,
            jobs.router,
            tags.router,
            dead_letters.router,
            unsendable_messages.router,
            usage.router,
            api_keys.router,
            llm_providers.router,
            embedding_models.router,
        ],
        ready=ready,
    )
    app.state.services = services
    app.state.request_limits = RequestLimits(
        services.database, {"administration": limit_of_administration(services.settings)}
    )
    return app


def create_services(settings: ApiSettings, database: Database, embedder: Embedder) -> Services:
    life_cycle = LifeCycle(database, interval_s=settings.life_cycle_interval_s)
    return Services(
        settings,
        database,
        embedder,
        create_key_ring(settings),
        life_cycle,
        StoredBytes(database, limit=settings.max_stored_bytes),
    )


@dataclass(slots=True)
class KbApi:
    """All parts of the service, made and not yet running."""

    services: Services
    _readiness: Readiness = field(default_factory=Readiness)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. If any part fails for good, all end: a new process is better than half of one."""
        app = create_app(self.services, ready=self._readiness.why_not_ready)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(server.run(app, self.services.settings, stop))
            parts.create_task(self._prepare_and_advance(stop))
            parts.create_task(self._relay(stop))
            parts.create_task(watch_budgets(self.services.database, stop))
            parts.create_task(keep_learning(self.services.settings, self.services.message_limits, stop))

    async def _prepare_and_advance(self, stop: asyncio.Event) -> None:
        if await process.patiently(stop, self._prepare, note=self._readiness.wait_for):
            self._readiness.started(mongodb_answers(self.services.database))
            await self.services.life_cycle.run(stop)

    async def _prepare(self) -> None:
        with mongo_errors():
            await schema.ensure(self.services.database)
            await ensure_admin_key(self.services.database, self.services.settings)
            await seal_again(self.services.database, self.services.key_ring)

    async def _relay(self, stop: asyncio.Event) -> None:
        """Without a broker requests are served all the same; what they have to tell waits in the outbox."""
        settings = self.services.settings
        producer = create_producer(settings)

        async def connect() -> None:
            self.services.message_limits.learn(await prepare_topics(settings))
            await producer.start()

        if await process.patiently(stop, connect):
            relay = OutboxRelay(self.services.database, producer, topic_prefix=settings.kafka_topic_prefix)
            try:
                await relay.run(stop)
            finally:
                await producer.stop()


@asynccontextmanager
async def build(settings: ApiSettings) -> AsyncIterator[KbApi]:
    """Make the service of `settings`; what it holds open is closed on leaving."""
    database = mongo.connect(settings)
    embedder = create_embedder(database, settings, patience_s=EMBEDDING_PATIENCE_S)
    try:
        yield KbApi(create_services(settings, database, embedder))
    finally:
        await embedder.close()
        await database.client.close()
