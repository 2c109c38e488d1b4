"""Constructs the clients of this service and wires them. Nothing else does."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from fastapi import FastAPI

from kb_api import organization_deletions as deletion_rows
from kb_api.admin_key import ensure_admin_key
from kb_api.check_provider import ProviderChecks
from kb_api.create_knowledge_base import KnowledgeBaseCreator
from kb_api.delete_organization import OrganizationDeletions
from kb_api.detect_dimensions import DimensionDetection
from kb_api.detect_languages import keep_detecting_languages
from kb_api.document_tags import DocumentTags
from kb_api.indexes import COLLECTIONS
from kb_api.life_cycle import LifeCycle
from kb_api.message_limits import MessageLimits
from kb_api.outcome_events import event_log
from kb_api.outcome_events.event_feed import EventFeed
from kb_api.outcome_events.list_events import EventLister
from kb_api.preview_knowledge_base import KnowledgeBasePreviewer
from kb_api.provider_keys import ProviderKeys, reseal_keys
from kb_api.publish_document_event import DocumentEventPublisher
from kb_api.refresh_message_limits import refresh_message_limits
from kb_api.routes import (
    api_keys,
    audit,
    dead_letters,
    document_contents,
    documents,
    documents_in_kb,
    embedding_models,
    events,
    jobs,
    knowledge_bases,
    llm_providers,
    operations,
    organization,
    previews,
    pushed_folders,
    reconcile,
    tags,
    unsendable_messages,
    usage,
    webhooks,
    whoami,
)
from kb_api.searchable_documents import SearchableDocuments
from kb_api.settings import ApiSettings
from kb_api.stored_bytes import StoredBytes
from kb_api.text_worker.client import TextWorker
from kb_api.watch_budgets import watch_budgets
from kb_api.webhooks import deliveries
from kb_api.webhooks.deliver import WebhookDeliverer
from kb_api.webhooks.webhook_secrets import WebhookSecrets
from kb_api.webhooks.webhook_sender import WebhookSender
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.concurrency.work_signal import WorkSignal
from kb_shared.embedding.bootstrap import create_embedder, create_key_ring
from kb_shared.embedding.embedder import Embedder
from kb_shared.http import application, server
from kb_shared.http.dependencies import provide
from kb_shared.http.health import Readiness, Ready, mongodb_answers
from kb_shared.http.request_limits import RequestLimits, limit_of_administration
from kb_shared.kafka.bootstrap import create_producer, prepare_topics
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import database as mongo
from kb_shared.mongo import knowledge_bases as knowledge_bases_rows
from kb_shared.mongo import outbox, schema_version
from kb_shared.mongo.database import Database, mongo_errors
from kb_shared.mongo.schema import create_indexes
from kb_shared.mongo.work_watch import WatchedCollections, WorkWatch
from kb_shared.providers.openai_server import OpenAIServers
from kb_shared.providers.organization_keys import check_default_model
from kb_shared.secrets.key_ring import KeyRing
from kb_shared.service import process

EMBEDDING_PATIENCE_S: Final = 5.0
"""Seconds that a request waits for the embedding provider: a person waits for the answer."""

ROUTERS: Final = (
    knowledge_bases.router,
    previews.router,
    documents.router,
    document_contents.router,
    documents_in_kb.router,
    jobs.router,
    tags.router,
    pushed_folders.router,
    dead_letters.router,
    unsendable_messages.router,
    usage.router,
    operations.router,
    api_keys.router,
    llm_providers.router,
    embedding_models.router,
    reconcile.router,
    audit.router,
    events.router,
    webhooks.router,
    whoami.router,
    organization.router,
)


@dataclass(frozen=True, slots=True)
class KbApi:
    """The parts of the service, constructed and not yet running."""

    settings: ApiSettings
    database: Database
    embedder: Embedder
    key_ring: KeyRing | None
    life_cycle: LifeCycle
    stored_bytes: StoredBytes
    provider_checks: ProviderChecks
    organization_deletions: OrganizationDeletions
    event_feed: EventFeed
    event_lister: EventLister
    webhook_secrets: WebhookSecrets
    webhook_sender: WebhookSender
    webhook_deliverer: WebhookDeliverer
    text_worker: TextWorker = field(default_factory=TextWorker)
    message_limits: MessageLimits = field(default_factory=MessageLimits)
    outbox_signal: WorkSignal = field(default_factory=WorkSignal)
    _readiness: Readiness = field(default_factory=Readiness)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. If one part fails permanently, all of them end, and the process is restarted."""
        app = create_app(self, ready=self._readiness.why_not_ready)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(server.run(app, self.settings, stop))
            parts.create_task(self._work(stop))

    async def _work(self, stop: asyncio.Event) -> None:
        """Do all that is not the answer to a request, once it is known that this code may work with the data."""
        if not await process.retry_until_done(stop, self._check_data, note=self._readiness.wait_for):
            return
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._prepare_and_advance(stop))
            parts.create_task(self._relay(stop))
            parts.create_task(self._watch(stop))
            parts.create_task(self.event_feed.run(stop))
            parts.create_task(watch_budgets(self.database, stop))
            parts.create_task(self._detect_languages(stop))
            parts.create_task(refresh_message_limits(self.settings, self.message_limits, stop))

    async def _watch(self, stop: asyncio.Event) -> None:
        """Wake the tasks that poll MongoDB when there may be work for them."""
        signals: WatchedCollections = {
            knowledge_bases_rows.NAME: (self.life_cycle.signal, knowledge_bases_rows.WORK),
            outbox.NAME: ((self.outbox_signal, self.event_lister.signal), outbox.WORK),
            event_log.NAME: (self.event_feed.signal, event_log.WORK),
            deliveries.NAME: (self.webhook_deliverer.signal, deliveries.WORK),
            deletion_rows.NAME: (self.organization_deletions.signal, deletion_rows.WORK),
        }
        async with asyncio.TaskGroup() as parts:
            watching = parts.create_task(WorkWatch(self.database, signals).run())
            await stop.wait()
            watching.cancel()

    async def _detect_languages(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as parts:
            detecting = parts.create_task(keep_detecting_languages(self.database, self.text_worker))
            await stop.wait()
            detecting.cancel()

    async def _check_data(self) -> None:
        with mongo_errors():
            await schema_version.check(self.database)

    async def _prepare_and_advance(self, stop: asyncio.Event) -> None:
        if await process.retry_until_done(stop, self._prepare, note=self._readiness.wait_for):
            self._readiness.started(mongodb_answers(self.database))
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self.life_cycle.run(stop))
                parts.create_task(self.organization_deletions.run(stop))
                parts.create_task(self.event_lister.run(stop))
                parts.create_task(self.webhook_deliverer.run(stop))

    async def _prepare(self) -> None:
        with mongo_errors():
            await create_indexes(self.database, COLLECTIONS)
            await ensure_admin_key(self.database, self.settings)
            await reseal_keys(self.database, self.key_ring)
            await self.webhook_secrets.reseal(self.database)

    async def _relay(self, stop: asyncio.Event) -> None:
        """Send the messages of the outbox. Without a broker, requests are served and their messages wait."""
        settings = self.settings
        producer = create_producer(settings)

        async def connect() -> None:
            self.message_limits.set_broker_limits(await prepare_topics(settings))
            await producer.start()

        if await process.retry_until_done(stop, connect):
            relay = OutboxRelay(
                self.database, producer, topic_prefix=settings.kafka_topic_prefix, signal=self.outbox_signal
            )
            try:
                await relay.run(stop)
            finally:
                await producer.stop()


def create_app(api: KbApi, *, ready: Ready | None = None) -> FastAPI:
    """Connect the routes to the parts of the service."""
    app = application.create_app(
        "Knowledge bases",
        api.settings,
        database=api.database,
        routers=ROUTERS,
        ready=ready,
    )
    models = api.embedder.models
    provide(
        app,
        api.settings,
        models,
        api.life_cycle,
        api.organization_deletions,
        api.stored_bytes,
        api.event_feed,
        api.webhook_secrets,
        api.webhook_sender,
        api.message_limits,
        SearchableDocuments(api.database),
        RequestLimits(api.database, {"administration": limit_of_administration(api.settings)}),
        KnowledgeBaseCreator(api.settings, api.database, embedder=api.embedder, life_cycle=api.life_cycle),
        KnowledgeBasePreviewer(api.settings, api.database, embedder=api.embedder, worker=api.text_worker),
        DocumentEventPublisher(
            api.database,
            stored_bytes=api.stored_bytes,
            document_tags=DocumentTags(api.database, limit=api.settings.max_tags),
            message_limits=api.message_limits,
        ),
        api.provider_checks,
        ProviderKeys(
            api.database,
            models=models,
            key_ring=api.key_ring,
            allow_private=api.settings.allow_private_addresses,
        ),
    )
    return app


def create_kb_api(settings: ApiSettings, *, database: Database, embedder: Embedder) -> KbApi:
    """Construct the parts that need no connection of their own."""
    check_default_model("KB_EMBEDDING_MODEL", settings.embedding_model, embedder.models.catalogue)
    life_cycle = LifeCycle(database, interval_s=settings.life_cycle_interval_s, detection=DimensionDetection(embedder))
    key_ring = create_key_ring(settings)
    secrets, sender = WebhookSecrets(key_ring), WebhookSender(allow_private=settings.allow_private_addresses)
    return KbApi(
        settings,
        database,
        embedder,
        key_ring,
        life_cycle,
        StoredBytes(database, limit=settings.max_stored_bytes),
        _create_provider_checks(settings, embedder),
        OrganizationDeletions(database, life_cycle, interval_s=settings.life_cycle_interval_s),
        EventFeed(database, streams_of_key=settings.max_event_streams_of_key),
        EventLister(database),
        secrets,
        sender,
        WebhookDeliverer(database, sender=sender, secrets=secrets),
    )


def _create_provider_checks(settings: ApiSettings, embedder: Embedder) -> ProviderChecks:
    chat_models = ChatCatalogue(
        bundled_chat_models(),
        local_models_api_base=settings.local_models_api_base,
        environment=os.environ,
        prices=settings.prices,
    )
    chat = ChatProvider(private_addresses=settings.allow_private_addresses)
    servers = OpenAIServers(private_addresses=settings.allow_private_addresses)
    return ProviderChecks(embedder, chat_models, chat, servers=servers, default_model=settings.embedding_model)


@asynccontextmanager
async def build(settings: ApiSettings) -> AsyncIterator[KbApi]:
    """Construct the service and its clients, which are closed on leaving."""
    database = mongo.connect(settings)
    embedder = create_embedder(database, settings, patience_s=EMBEDDING_PATIENCE_S)
    api = create_kb_api(settings, database=database, embedder=embedder)
    try:
        yield api
    finally:
        await api.text_worker.close()
        await api.webhook_sender.close()
        await api.provider_checks.close()
        await embedder.close()
        await database.client.close()
