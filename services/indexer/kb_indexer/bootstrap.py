"""Constructs all parts of the service: the only place that makes clients and wires them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kb_contracts import topics
from kb_indexer.backfill import BackfillRunner
from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.job_leases import JobLeases
from kb_indexer.consumer.load import (
    EVENTS_FOR_A_DOCUMENT,
    EventThrottle,
    Load,
    first_documents,
    load_of_documents,
    load_of_events,
)
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.deletion_watch import KnowledgeBaseDeletionWatch
from kb_indexer.fan_out import READ_AHEAD, TOGETHER, FanOut
from kb_indexer.indexes import COLLECTIONS
from kb_indexer.metric_series_cleaner import MetricSeriesCleaner
from kb_indexer.queue_dispatcher import QueueDispatcher
from kb_indexer.searchable import SearchProbe
from kb_indexer.settings import IndexerSettings
from kb_indexer.size_limits import SizeLimits
from kb_indexer.source import SOURCE
from kb_indexer.state_reader import StateReader
from kb_indexer.sweeper import Sweeper, send_lost_commands_again
from kb_indexer.sync_document import SyncDocumentHandler
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.concurrency.work_signal import WorkSignal
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.http.health import Readiness, mongodb_answers, serve_health_during
from kb_shared.kafka.bootstrap import create_kafka_watch
from kb_shared.kafka.consumer import MAX_REPLAY, Consumer, create_membership_check
from kb_shared.kafka.group_watch import KafkaWatch
from kb_shared.kafka.positions import OnLost, accept_loss
from kb_shared.kafka.record import DeadLetters, Handler
from kb_shared.kafka.scheduling import ONE_AT_A_TIME, BundleLimits
from kb_shared.messaging.dead_letters import DeadLetterPublisher
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.messaging.known_organizations import KnownOrganizations
from kb_shared.messaging.outbox_relay import OutboxRelay
from kb_shared.mongo import backfills, index_jobs, outbox
from kb_shared.mongo.database import Database, transaction_lifetime_s
from kb_shared.mongo.work_watch import WorkWatch
from kb_shared.observability.metrics import limit_knowledge_bases
from kb_shared.service import process
from kb_shared.service.connections import Connections, connect

GROUP_FAN_OUT = "kb-indexer-fan-out"
GROUP_SYNC = "kb-indexer-sync"
TOPICS_OF_GROUPS: Final[Mapping[str, Sequence[topics.Topic]]] = {
    GROUP_FAN_OUT: [topics.DOCUMENT_EVENTS, topics.KNOWLEDGE_DOCUMENT_EVENTS],
    GROUP_SYNC: [topics.INDEX_REQUESTS, topics.INDEX_BACKFILL],
}


async def serve(settings: IndexerSettings, stop: asyncio.Event) -> None:
    """Serve health at once, and index as soon as MongoDB and Kafka allow it, until `stop`."""
    readiness = Readiness()

    async def work() -> None:
        with suppress(process.Stopped):
            async with build(settings, stop, readiness) as indexer:
                await indexer.run(stop)

    await serve_health_during(settings, readiness.why_not_ready, work())


@dataclass(frozen=True, slots=True)
class Indexer:
    """All parts of the service, made and not yet running."""

    fan_out: Consumer
    sync: Consumer
    kafka: KafkaWatch
    leases: JobLeases
    relay: OutboxRelay
    sweeper: Sweeper
    dispatcher: QueueDispatcher
    backfills: BackfillRunner
    series: MetricSeriesCleaner
    deletions: KnowledgeBaseDeletionWatch
    work: WorkWatch

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`: the consumers finish their records and commit, then the other parts end.

        If one part fails, all end: a new process is better than one without a part.
        """
        consumed = asyncio.Event()
        async with asyncio.TaskGroup() as parts:
            background = [
                parts.create_task(part)
                for part in (
                    self.leases.run(),
                    self.sweeper.run(),
                    self.dispatcher.run(),
                    self.backfills.run(),
                    self.series.run(),
                    self.deletions.run(),
                    self.work.run(),
                    self.kafka.run(),
                )
            ]
            parts.create_task(self.relay.run(consumed))
            await run_all_or_cancel([self.fan_out.run(stop), self.sync.run(stop)])
            consumed.set()
            for part in background:
                part.cancel()


@asynccontextmanager
async def build(settings: IndexerSettings, stop: asyncio.Event, readiness: Readiness) -> AsyncIterator[Indexer]:
    """Make the indexer of `settings` once MongoDB and Kafka answer; close its connections after the block.

    Raises:
        Stopped: `stop` was set while it waited for them.
    """
    connecting = connect(settings, stop, note=readiness.wait_for, collections=COLLECTIONS)
    async with connecting as connections, AsyncExitStack() as open_things:
        embedder = create_embedder(connections.database, settings)
        open_things.push_async_callback(embedder.close)
        probe = SearchProbe()
        open_things.push_async_callback(probe.close)
        threads = ChunkingThreads()
        open_things.callback(threads.close)
        lifetime_s = await transaction_lifetime_s(connections.database)
        first = await first_documents(connections.database)
        indexer = _wire(
            settings, connections, embedder=embedder, probe=probe, threads=threads, lifetime_s=lifetime_s, first=first
        )
        readiness.started(
            mongodb_answers(connections.database),
            indexer.kafka.why_not_ready,
            create_membership_check(indexer.fan_out),
            create_membership_check(indexer.sync),
        )
        yield indexer


@dataclass(frozen=True, slots=True)
class _Shared:
    """Parts that several others use. One of each in a process."""

    database: Database
    state_reader: StateReader
    requests: IndexRequests
    organizations: KnownOrganizations | None
    dead_letters: DeadLetterPublisher
    backlog: Backlog
    quarantine: SuspectQuarantine
    documents: Load
    events: EventThrottle
    leases: JobLeases


def _wire(
    settings: IndexerSettings,
    connections: Connections,
    *,
    embedder: Embedder,
    probe: SearchProbe,
    threads: ChunkingThreads,
    lifetime_s: float,
    first: int,
) -> Indexer:
    shared = _create_shared(settings, connections, lifetime_s=lifetime_s, first=first)
    database, requests = shared.database, shared.requests
    limit_knowledge_bases(settings.metrics_max_kb)
    deletions = KnowledgeBaseDeletionWatch(shared.state_reader, embedder)
    messages, scans, queued = WorkSignal(), WorkSignal(), WorkSignal()
    sync = SyncDocumentHandler(
        database,
        embedder,
        state_reader=shared.state_reader,
        leases=shared.leases,
        probe=probe,
        threads=threads,
        quarantine=shared.quarantine,
        deletions=deletions,
        load=shared.documents,
        lifetime_s=lifetime_s,
        size_limits=_create_size_limits(settings, database),
    )
    return Indexer(
        kafka=_create_kafka_watch(settings),
        fan_out=_create_fan_out_consumer(settings, shared),
        sync=_create_sync_consumer(settings, shared, sync),
        leases=shared.leases,
        relay=OutboxRelay(database, connections.producer, topic_prefix=settings.kafka_topic_prefix, signal=messages),
        sweeper=Sweeper(database, requests, backlog=shared.backlog, interval_s=settings.sweep_interval_s),
        dispatcher=QueueDispatcher(database, requests, signal=queued),
        backfills=BackfillRunner(database, requests, lease=timedelta(seconds=settings.job_lease_s), signal=scans),
        series=MetricSeriesCleaner(database, interval_s=settings.metrics_clean_interval_s),
        deletions=deletions,
        work=WorkWatch(
            database,
            {
                outbox.NAME: (messages, outbox.WORK),
                backfills.NAME: (scans, backfills.WORK),
                index_jobs.NAME: (queued, index_jobs.QUEUED),
            },
        ),
    )


def _create_shared(settings: IndexerSettings, connections: Connections, *, lifetime_s: float, first: int) -> _Shared:
    database, producer, prefix = connections.database, connections.producer, settings.kafka_topic_prefix
    documents = load_of_documents(most=settings.max_in_flight, lifetime_s=lifetime_s, first=first)
    events = load_of_events(most=settings.max_in_flight, first=first)
    organizations = None if settings.organizations_from_events else KnownOrganizations(database)
    return _Shared(
        database=database,
        state_reader=StateReader(database),
        requests=IndexRequests(database, producer, topic_prefix=prefix, source=SOURCE),
        organizations=organizations,
        dead_letters=DeadLetterPublisher(database, producer, topic_prefix=prefix, organizations=organizations),
        backlog=Backlog(database),
        quarantine=SuspectQuarantine(),
        documents=documents,
        events=EventThrottle(events=events, documents=documents),
        leases=JobLeases(database, length=timedelta(seconds=settings.job_lease_s), load=documents),
    )


def _create_size_limits(settings: IndexerSettings, database: Database) -> SizeLimits:
    return SizeLimits(
        database,
        max_documents=settings.max_documents_of_knowledge_base,
        max_chunks=settings.max_chunks_of_knowledge_base,
    )


def _create_kafka_watch(settings: IndexerSettings) -> KafkaWatch:
    return create_kafka_watch(settings, groups=TOPICS_OF_GROUPS)


def _create_fan_out_consumer(settings: IndexerSettings, shared: _Shared) -> Consumer:
    handler = FanOut(
        shared.database,
        shared.requests,
        state_reader=shared.state_reader,
        quarantine=shared.quarantine,
        backlog=shared.backlog,
        load=shared.events,
        organizations=shared.organizations,
        knowledge_topic=settings.kafka_topic_prefix + topics.KNOWLEDGE_DOCUMENT_EVENTS.name,
    )
    return _create_consumer(
        settings,
        handler,
        shared.dead_letters,
        group=GROUP_FAN_OUT,
        live=TOPICS_OF_GROUPS[GROUP_FAN_OUT],
        max_in_flight=EVENTS_FOR_A_DOCUMENT * settings.max_in_flight,
        limit=shared.events.limit,
        max_replay=READ_AHEAD,
        bundles=TOGETHER,
    )


def _create_sync_consumer(settings: IndexerSettings, shared: _Shared, handler: SyncDocumentHandler) -> Consumer:
    return _create_consumer(
        settings,
        handler,
        shared.dead_letters,
        group=GROUP_SYNC,
        live=[topics.INDEX_REQUESTS],
        bulk=[topics.INDEX_BACKFILL],
        max_in_flight=settings.max_in_flight,
        limit=shared.documents.limit,
        on_lost=send_lost_commands_again(shared.database),
    )


def _create_consumer(
    settings: IndexerSettings,
    handler: Handler,
    dead_letters: DeadLetters,
    *,
    group: str,
    live: Sequence[topics.Topic],
    bulk: Sequence[topics.Topic] = (),
    max_in_flight: int,
    limit: Callable[[], int] | None = None,
    max_replay: int = MAX_REPLAY,
    bundles: BundleLimits = ONE_AT_A_TIME,
    on_lost: OnLost = accept_loss,
) -> Consumer:
    prefix = settings.kafka_topic_prefix
    return Consumer(
        handler,
        dead_letters,
        topics=[prefix + topic.name for topic in live],
        bulk_topics=[prefix + topic.name for topic in bulk],
        group_id=prefix + group,
        connection=settings.kafka_connection,
        session_timeout_ms=settings.kafka_session_timeout_ms,
        fetch_max_wait_ms=settings.kafka_fetch_max_wait_ms,
        leave_group=settings.kafka_leave_group,
        unreadable_tries=settings.kafka_unreadable_tries,
        max_in_flight=max_in_flight,
        limit=limit,
        max_replay=max_replay,
        bundles=bundles,
        on_lost=on_lost,
    )
