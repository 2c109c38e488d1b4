"""The indexer's handlers in this process, on real servers, with Kafka replaced by a list."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from kb_api.change_knowledge_base import change_knowledge_base
from kb_api.delete_knowledge_base import delete_knowledge_base
from kb_api.life_cycle import STEPS, LifeCycle
from kb_api.pause_knowledge_base import pause_knowledge_base, resume_knowledge_base
from kb_api.settings import ApiSettings
from kb_contracts import topics
from kb_contracts.api.knowledge_bases import ChangeKnowledgeBase
from kb_contracts.cloudevents import Payload, decode, encode
from kb_contracts.documents import DocumentDeleted, MetadataChanged, OcrCompleted, TagsChanged, key_of
from kb_contracts.metadata import MetadataValue
from kb_indexer.backfill import BackfillRunner
from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.consumer.backlog import Backlog
from kb_indexer.consumer.job_leases import JobLeases
from kb_indexer.consumer.load import EventThrottle, load_of_documents, load_of_events
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.deletion_watch import KnowledgeBaseDeletionWatch
from kb_indexer.fan_out import FanOut
from kb_indexer.queue_dispatcher import QueueDispatcher
from kb_indexer.searchable import SearchProbe
from kb_indexer.size_limits import SizeLimits
from kb_indexer.state_reader import StateReader
from kb_indexer.sweeper import Sweeper
from kb_indexer.sync_document import SyncDocumentHandler
from kb_local.model_server.hash_model import vector_of
from kb_reconciler.drift.kinds import Comparison, RepairTools
from kb_reconciler.passes import Passes, PassReport
from kb_reconciler.reconcile import KnowledgeBaseReconciler, KnowledgeBaseReport
from kb_reconciler.slices import split
from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, chunk_text
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.http.authentication import Caller
from kb_shared.identifiers import new_kb_id
from kb_shared.kafka.headers import Headers
from kb_shared.kafka.producer import DeliveryOutcome, Producer, ProducerMessage
from kb_shared.kafka.record import Record
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import (
    backfills,
    chunk_indexes,
    circuits,
    document_index,
    index_jobs,
    kb_slots,
    knowledge_bases,
    rate_limits,
    spu_ledger,
    tags,
    vectors,
)
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.index_jobs import LANE_LIMITS, LaneLimits
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.vector import Vector, from_binary
from kb_shared.settings import EmbeddingSettings
from kb_shared.text import text_normalization
from kb_shared.text.text_normalization import for_model
from tests.knowledge_bases import build_knowledge_base
from tests.stored_jobs import jobs_of_kb

DIMENSIONS = 16
CHUNK_SIZE = 32
_WRITE_CONFLICT = 112
_LONG_S = 0.05
"""For a write that nothing holds up."""
_WRITES = ("insert", "update", "delete", "findAndModify")

P = TypeVar("P", bound=Payload)

LANES = (topics.INDEX_REQUESTS.name, topics.INDEX_BACKFILL.name)
UPLOADED = datetime(2026, 1, 31, tzinfo=UTC)


class RecordingProducer(Producer):
    """Records what is sent, in order; `sent_to` removes and returns the messages of some topics."""

    def __init__(self) -> None:
        self.sent: list[ProducerMessage] = []

    async def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        self.sent.append(ProducerMessage(topic, key, value, headers))

    async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        self.sent.extend(messages)
        return [None] * len(messages)

    def sent_to(self, *topic_names: str) -> list[ProducerMessage]:
        taken = [message for message in self.sent if message.topic in topic_names]
        self.sent = [message for message in self.sent if message.topic not in topic_names]
        return taken


class CommandLog(CommandListener):
    """Log of the commands that a client sends to MongoDB, and of their outcomes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.commands: list[Mapping[str, Any]] = []
        self.write_conflicts = 0
        self._under_way: dict[int, float] = {}

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(event.command)
        if event.command_name in _WRITES:
            self._under_way[event.request_id] = monotonic()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._under_way.pop(event.request_id, None)

    def failed(self, event: CommandFailedEvent) -> None:
        self._under_way.pop(event.request_id, None)
        self.write_conflicts += event.failure.get("code") == _WRITE_CONFLICT

    def held_up(self) -> bool:
        """Say whether a write waits for another transaction: the server refused it, or keeps it for strangely long."""
        return self.write_conflicts > 0 or any(monotonic() - since > _LONG_S for since in self._under_way.values())

    def names(self) -> list[str]:
        return [f"{next(iter(command))} {command[next(iter(command))]}" for command in self.commands]


_offsets = count()


def record(value: bytes | None, *, key: bytes | None = None, topic: str = topics.DOCUMENT_EVENTS.name) -> Record:
    return Record(topic, 0, next(_offsets), key, value, (), 0)


def paragraph(n: int, *, about: str = "harvest") -> str:
    """About 25 tokens, so that two don't fit into one chunk."""
    return (
        f"Paragraph {n} tells of the {about} of the year {1900 + n}, of those who were there, and of what it came to."
    )


def text_of(*paragraphs: int, about: str = "harvest") -> str:
    return "\n\n".join(paragraph(n, about=about) for n in paragraphs)


def chunks_of_text(text: str) -> list[Chunk]:
    return chunk_text(text, ChunkingConfig(ChunkerType.RECURSIVE, CHUNK_SIZE, 0))


def chunks_for(kb: KnowledgeBase, text: str) -> list[Chunk]:
    config = ChunkingConfig(ChunkerType(kb.chunker_type), kb.chunk_size, kb.chunk_overlap, kb.text_normalization)

    def embed(texts: Sequence[str]) -> list[Vector]:
        return [vector_of(for_model(text, kb.text_normalization), dimensions=kb.embedding_dimensions) for text in texts]

    return chunk_text(text, config, embed=embed)


@dataclass
class Replica:
    """One process's parts of the indexer, and what it takes of kb-api. Several share a database as processes do."""

    database: Database
    embedder: Embedder
    threads: ChunkingThreads
    lease: timedelta
    limits: LaneLimits = LANE_LIMITS
    backlog_known_for_s: float = 1.0
    producer: RecordingProducer = field(default_factory=RecordingProducer)

    def __post_init__(self) -> None:
        self.requests = IndexRequests(self.database, self.producer, topic_prefix="", source="/kb/test")
        state_reader = StateReader(self.database)
        self.quarantine = SuspectQuarantine()
        self.backlog = Backlog(self.database, limits=self.limits, known_for_s=self.backlog_known_for_s)
        self.load = load_of_documents(most=32, lifetime_s=60)
        self.fan_out = FanOut(
            self.database,
            self.requests,
            state_reader=state_reader,
            quarantine=self.quarantine,
            backlog=self.backlog,
            load=EventThrottle(events=load_of_events(most=32), documents=self.load),
        )
        self.probe = SearchProbe()
        self.deletions = KnowledgeBaseDeletionWatch(state_reader, self.embedder)
        self.leases = JobLeases(self.database, length=self.lease, load=self.load)
        self.sync = SyncDocumentHandler(
            self.database,
            self.embedder,
            state_reader=state_reader,
            leases=self.leases,
            probe=self.probe,
            threads=self.threads,
            quarantine=self.quarantine,
            deletions=self.deletions,
            load=self.load,
            size_limits=SizeLimits(self.database, max_documents=0, max_chunks=0),
        )
        self.sweeper = Sweeper(self.database, self.requests, backlog=self.backlog, interval_s=1)
        self.dispatcher = QueueDispatcher(self.database, self.requests, limits=self.limits)
        self.backfills = BackfillRunner(self.database, self.requests, lease=self.lease)
        self.life_cycle = LifeCycle(self.database, interval_s=1)
        self.passes = Passes(RepairTools(self.database, self.requests), grace=timedelta(0))

    async def publish(self, *events: Payload) -> None:
        """Hand events to the fan-out, as the consumer of `document-events` does."""
        for event in events:
            await self.fan_out.handle(record(encode(event, source="/upstream"), key=key_of(event)))

    async def publish_together(self, *events: Payload) -> list[BaseException | None]:
        """Hand events to the fan-out in one bundle; return what becomes of each."""
        records = [record(encode(event, source="/upstream"), key=key_of(event)) for event in events]
        return await asyncio.gather(*map(self.fan_out.handle, records), return_exceptions=True)

    async def publish_knowledge(self, *events: Payload) -> None:
        """Hand events to the fan-out, as the consumer of `knowledge-document-events` does."""
        for event in events:
            value = encode(event, source="/kb/knowledge")
            topic = topics.KNOWLEDGE_DOCUMENT_EVENTS.name
            await self.fan_out.handle(record(value, key=key_of(event), topic=topic))

    async def handle_commands(self) -> None:
        """Handle what was sent on both lanes until nothing is left there."""
        while messages := self.producer.sent_to(*LANES):
            for message in messages:
                await self.sync.handle(record(message.value, key=message.key, topic=message.topic))

    async def work(self) -> None:
        """Handle commands, queued jobs, and what becomes due, until there is nothing left to do now."""
        await self.handle_commands()
        while await self.sweeper.sweep() + await self.dispatcher.dispatch():
            await self.handle_commands()

    async def scan(self) -> None:
        """Run backfills to their end."""
        while await self.backfills.turn():
            await self.handle_commands()

    async def retag_kb(self, kb: KnowledgeBase, *tag_ids: str) -> None:
        await tags.register(self.database, kb.organization_id, tag_ids=tag_ids)
        await self.change_kb(kb, tag_ids=list(tag_ids))

    async def change_kb(self, kb: KnowledgeBase, **fields: Any) -> None:
        await change_knowledge_base(
            self.database,
            _caller(kb),
            kb_id=kb.kb_id,
            requested=ChangeKnowledgeBase(**fields),
            max_chunks_limit=ApiSettings().max_chunks_per_document,
            life_cycle=self.life_cycle,
        )

    async def pause_kb(self, kb: KnowledgeBase) -> None:
        await pause_knowledge_base(self.database, _caller(kb), kb_id=kb.kb_id, life_cycle=self.life_cycle)

    async def resume_kb(self, kb: KnowledgeBase) -> None:
        await resume_knowledge_base(self.database, _caller(kb), kb_id=kb.kb_id, life_cycle=self.life_cycle)

    async def begin_deletion_of_kb(self, kb: KnowledgeBase) -> None:
        """Begin the deletion: from here on no caller sees the KB and nothing is written to it."""
        await delete_knowledge_base(self.database, _caller(kb), kb_id=kb.kb_id, life_cycle=self.life_cycle)

    async def finish_deletion_of_kb(self, kb: KnowledgeBase) -> None:
        await STEPS[Status.DELETING](self.database, kb)

    async def reconcile(self, kb: KnowledgeBase) -> KnowledgeBaseReport:
        """Reconcile one KB as a full pass does."""
        reconciler = KnowledgeBaseReconciler(
            self.passes.tools, kb, unchanged_since=datetime.now(UTC), comparisons=frozenset(Comparison), whole=True
        )
        return await reconciler.run(split(self.database, kb))

    async def full_pass(self) -> PassReport:
        """Make a full pass of the reconciler, over the KBs of all organizations."""

        async def still_leader() -> None:
            pass

        return await self.passes.full(still_leader)

    async def close(self) -> None:
        await self.probe.close()
        await self.embedder.close()


def _caller(kb: KnowledgeBase) -> Caller:
    return Caller(kb.organization_id, "test", frozenset())


@asynccontextmanager
async def replica(
    database: Database,
    api_base: str,
    *,
    lease: timedelta = timedelta(seconds=15),
    patience_s: float = 0.2,
    limits: LaneLimits = LANE_LIMITS,
    backlog_known_for_s: float = 1.0,
) -> AsyncIterator[Replica]:
    settings = EmbeddingSettings(local_models_api_base=api_base)
    threads = ChunkingThreads()
    embedder = create_embedder(database, settings, patience_s=patience_s)
    made = Replica(database, embedder, threads, lease, limits=limits, backlog_known_for_s=backlog_known_for_s)
    try:
        yield made
    finally:
        await made.close()
        threads.close()


@dataclass
class Tenant:
    """An organization of its own for each test, and what upstream, kb-api and an auditor do for it."""

    database: Database
    organization_id: str = field(default_factory=lambda: f"org-{uuid4().hex[:12]}")

    def ocr(
        self,
        document_id: str,
        text: str | None,
        *,
        revision: int = 1,
        tags: Sequence[str] = ("a",),
        metadata: dict[str, MetadataValue] | None = None,
        text_ref: str | None = None,
    ) -> OcrCompleted:
        return OcrCompleted(
            organization_id=self.organization_id,
            document_id=document_id,
            revision=revision,
            document_name=f"{document_id}.pdf",
            tag_ids=list(tags),
            upload_date=UPLOADED,
            text=text,
            text_ref=text_ref,
            metadata=metadata,
        )

    def tagged(self, document_id: str, *tags: str, revision: int) -> TagsChanged:
        return TagsChanged(
            organization_id=self.organization_id, document_id=document_id, revision=revision, tag_ids=list(tags)
        )

    def described(self, document_id: str, metadata: dict[str, MetadataValue], *, revision: int) -> MetadataChanged:
        return MetadataChanged(
            organization_id=self.organization_id, document_id=document_id, revision=revision, metadata=metadata
        )

    def deleted(self, document_id: str, *, revision: int) -> DocumentDeleted:
        return DocumentDeleted(organization_id=self.organization_id, document_id=document_id, revision=revision)

    async def create_kb(
        self,
        *tags: str,
        model: str = f"hash-{DIMENSIONS}",
        dimensions: int = DIMENSIONS,
        max_chunks: int = 2000,
        chunker_type: ChunkerType = ChunkerType.RECURSIVE,
        chunk_size: int = CHUNK_SIZE,
        normalization: int = text_normalization.CURRENT,
        refuse_sensitive: bool = False,
    ) -> KnowledgeBase:
        """Create the KB as the life cycle of kb-api does: with its slots, its collection and both kinds of indexes."""
        kb = build_knowledge_base(
            kb_id=new_kb_id(),
            organization_id=self.organization_id,
            tag_ids=tuple(tags),
            chunker_type=chunker_type,
            chunk_size=chunk_size,
            chunk_overlap=0,
            embedding_model=model,
            embedding_dimensions=dimensions,
            max_chunks_per_document=max_chunks,
            text_normalization=normalization,
            refuse_sensitive=refuse_sensitive,
        )

        async def work(session: MongoSession) -> None:
            await knowledge_bases.insert(self.database, session, kb)
            await kb_slots.create(self.database, session, kb.key, tags_version=kb.tags_version)

        collection = await self.database.create_collection(kb.vector_collection)
        await collection.create_indexes(vectors.INDEXES)
        await chunk_indexes.ensure(collection, kb)
        await in_transaction(self.database, work)
        return kb

    async def make_due(self) -> None:
        """Let the time pass that postponed jobs, pauses of limits and circuits wait for, and leases last.

        A process remembers for itself how long a provider wants to be left alone: let another go on.
        """
        mine = {"organization_id": self.organization_id}
        earlier = {"$subtract": ["$at", 600_000]}
        await self.database[rate_limits.NAME].update_many(mine, [{"$set": {"at": earlier}}])
        await self.database[circuits.NAME].update_many(mine, [{"$set": {"open_until": earlier}}])
        # A lease is valid for the whole millisecond in which it ends.
        past = datetime.now(UTC) - timedelta(milliseconds=1)
        await self.database[index_jobs.NAME].update_many(
            {"organization_id": self.organization_id, "next_attempt_at": {"$ne": None}},
            [
                {
                    "$set": {
                        "next_attempt_at": past,
                        "postponed_until": None,
                        "lease_until": {"$cond": ["$lease_owner", past, None]},
                    }
                }
            ],
        )

    async def let_pass(self, time: timedelta) -> None:
        """Bring nearer what jobs wait for, and nothing else."""
        sooner = {"$subtract": ["$next_attempt_at", time // timedelta(milliseconds=1)]}
        query = {"organization_id": self.organization_id}
        await self.database[index_jobs.NAME].update_many(query, [{"$set": {"next_attempt_at": sooner}}])

    async def jobs(self) -> dict[tuple[str, str], index_jobs.IndexJob]:
        """Open jobs by KB and document."""
        kb_ids = await self.database[index_jobs.NAME].distinct("kb_id", {"organization_id": self.organization_id})
        return {
            (kb_id, job.document_id): job
            for kb_id in kb_ids
            async for job in jobs_of_kb(self.database, KnowledgeBaseKey(self.organization_id, kb_id))
        }

    async def spus(self) -> int:
        return await spu_ledger.sum_spus(self.database, self.organization_id)

    async def assert_holds(self, kb: KnowledgeBase, expected: Mapping[str, str]) -> None:
        """Assert that `kb` holds the chunks of these texts by document id, each once, and nothing else of anything."""
        rows = {
            row.document_id: row
            async for row in document_index.iterate_kb(self.database, KnowledgeBaseKey(self.organization_id, kb.kb_id))
        }
        assert rows.keys() == expected.keys()
        stored = await self.database[kb.vector_collection].find().to_list()
        assert {row["document_id"] for row in stored} <= expected.keys(), "chunks of a document that is not in the KB"
        chunk_total = 0
        for document_id, text in expected.items():
            chunks = chunks_for(kb, text)
            live = [row for row in stored if row["document_id"] == document_id and row["until"] is None]
            live.sort(key=lambda row: row["chunk_index"])
            assert [row["chunk_text"] for row in live] == [chunk.text for chunk in chunks]
            assert [row["chunk_index"] for row in live] == list(range(len(chunks)))
            for row, chunk in zip(live, chunks, strict=True):
                wanted = vector_of(chunk.embedded_text, dimensions=kb.embedding_dimensions)
                assert np.array_equal(from_binary(row["embedding"]), wanted), "a vector of another text"
            assert rows[document_id].chunk_count == len(chunks)
            chunk_total += len(chunks)
        totals = await kb_slots.sum_counters(self.database, self.organization_id, kb_ids=[kb.kb_id])
        assert totals[kb.kb_id] == (len(rows), chunk_total), "the counters differ from what is there"

    async def assert_gone(self, kb: KnowledgeBase) -> None:
        """Assert that nothing of `kb` is left anywhere."""
        assert kb.vector_collection not in await self.database.list_collection_names()
        for name in (document_index.NAME, index_jobs.NAME, kb_slots.NAME, backfills.NAME):
            assert await self.database[name].count_documents({"kb_id": kb.kb_id}) == 0, name
        assert await self.database[knowledge_bases.NAME].count_documents({"_id": kb.kb_id}) == 0

    async def assert_settled(self) -> None:
        """Assert that no work is open, and that what was charged is what was stored."""
        assert await self.jobs() == {}
        cached = await self.database["embedding_cache"].count_documents({"scope": self.organization_id})
        assert await self.spus() == cached


def decoded(values: Sequence[bytes], *types: type[P]) -> list[Any]:
    """The payloads of some messages, whose attributes a test may ask for at will."""
    return [decode(value, {kind.TYPE: kind for kind in types})[1] for value in values]
