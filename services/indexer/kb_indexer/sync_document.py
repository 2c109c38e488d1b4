"""Bring a document in a KB to the state that the source of truth requires now: index, refresh or remove it.

Duplicates and late commands are harmless. Nothing waits in the partition: work that can't be done now goes back to
`index_jobs` with a later time.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final, Literal

import structlog

from kb_contracts.cloudevents import decode
from kb_contracts.commands import INDEX_REQUESTS, SyncDocument, key_of
from kb_indexer.chunk_document import chunk_document
from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.consumer.job_leases import JobLeases
from kb_indexer.consumer.load import Load
from kb_indexer.consumer.record_keys import read_organization_id, require_key
from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine
from kb_indexer.deletion_watch import KnowledgeBaseDeletionWatch
from kb_indexer.embedding_progress import NoteMissing, noting_embedded
from kb_indexer.refuse_sensitive import SensitiveDocuments
from kb_indexer.searchable import SearchProbe
from kb_indexer.size_limits import SizeLimits, check_metadata_size
from kb_indexer.state_reader import StateReader
from kb_indexer.swap import StaleDecision, SwapResult, pause_job, remove_document, replace_document
from kb_indexer.sync_failures import SyncFailures
from kb_shared.chunking import Chunk
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel
from kb_shared.concurrency.keyed_locks import KeyedLocks
from kb_shared.embedding.embedder import Embedded, Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector_origin import origin_of
from kb_shared.errors import KnowledgeBaseNotReady, SensitiveDocument, TransientError
from kb_shared.failpoints import reach
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.membership import Action, awaits_text, decide
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo import index_jobs, kb_slots, vectors
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.database import TRANSACTION_LIFETIME_S, Database, mongo_errors
from kb_shared.mongo.document_index import IndexedDocument, IndexingWork
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import UNKNOWN_DIMENSIONS, KnowledgeBase, Status
from kb_shared.mongo.vector import Vector
from kb_shared.mongo.vectors import EmbeddedChunk
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import CHUNKS_INDEXED, EVENT_PROCESSING_SECONDS, forget_knowledge_base
from kb_shared.observability.tracing import TraceSpan

MAX_CRASHES: Final = 10
_MAX_DECISIONS: Final = 10
_BEFORE_NEXT_DECISION_S: Final = 0.05
_WITHOUT_NEW_CHUNKS: Final = frozenset({Action.NOTHING, Action.ACKNOWLEDGE, Action.REFRESH, Action.CHECK})

log = structlog.get_logger()


class SyncDocumentHandler:
    """Handler of both lanes of index requests."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        *,
        state_reader: StateReader,
        leases: JobLeases,
        probe: SearchProbe,
        threads: ChunkingThreads,
        quarantine: SuspectQuarantine,
        deletions: KnowledgeBaseDeletionWatch,
        load: Load,
        size_limits: SizeLimits,
        lifetime_s: float = TRANSACTION_LIFETIME_S,
    ) -> None:
        """Construct it; `lifetime_s` is after how long MongoDB ends a transaction."""
        self._database = database
        self._state_reader = state_reader
        self._embedder = embedder
        self._leases = leases
        self._probe = probe
        self._threads = threads
        self._quarantine = quarantine
        self._deletions = deletions
        self._size_limits = size_limits
        self._load = load
        self._lifetime_s = lifetime_s
        self._sensitive_documents = SensitiveDocuments(state_reader, threads)
        self._failures = SyncFailures(database, leases, load)
        self._locks = KeyedLocks()

    def ordering_key(self, record: Record) -> OrderingKey:
        key = (record.key or b"").decode(errors="replace")
        return OrderingKey(organization_id=read_organization_id(record), group=key.partition("/")[0], key=key)

    async def handle(self, record: Record) -> None:
        _, command = decode(record.value, INDEX_REQUESTS)
        require_key(record, key_of(command))
        structlog.contextvars.bind_contextvars(
            organization_id=command.organization_id, kb_id=command.kb_id, document_id=command.document_id
        )
        tracing.annotate(
            {
                "kb.organization_id": command.organization_id,
                "kb.kb_id": command.kb_id,
                "kb.document_id": command.document_id,
                "kb.reason": command.reason,
            }
        )
        with self._load.at_work(), mongo_errors():
            async with self._leases.hold(command) as job:
                if job is None:
                    log.debug("job.not_found")
                    return
                if job.crashes >= MAX_CRASHES:
                    await self._failures.fail_document(
                        job, "worker_crashed", "the indexer died again and again at work on nothing else"
                    )
                    return
                structlog.contextvars.bind_contextvars(job_token=job.token)
                async with self._at_work_on(job):
                    await reach("sync.after_claim")
                    async with self._failures.requeue_or_fail(job):
                        await self._decide_and_act(command, job)

    @asynccontextmanager
    async def _at_work_on(self, job: IndexJob) -> AsyncIterator[None]:
        """Work beside others, or alone if processes have died while they worked on `job`."""
        if not job.is_suspect:
            async with self._quarantine.enter_side_by_side():
                yield
            return
        async with self._quarantine.enter_alone():
            log.warning("document.quarantined", crashes=job.crashes)
            await index_jobs.note_alone(self._database, job)
            yield

    async def _decide_and_act(self, command: SyncDocument, job: IndexJob) -> None:
        for _ in range(_MAX_DECISIONS):
            kb, document, indexed = await self._read_state(command)
            if kb is None or kb.status is Status.DELETING:
                forget_knowledge_base(command.kb_id)
                await self._leases.close_job(job, finished=await index_jobs.finish(self._database, job))
                return
            action = await self._decide_action(kb, document, indexed, force=job.force)
            tracing.annotate({"kb.action": action})
            try:
                await self._apply_action(action, job, kb=kb, document=document, indexed=indexed)
            except StaleDecision:
                log.info("swap.fenced", action=action)
                # A change of the KB keeps its fence closed for a moment.
                await asyncio.sleep(_BEFORE_NEXT_DECISION_S)
                continue
            return
        raise TransientError(f"the document changed {_MAX_DECISIONS} times while it was indexed")

    async def _read_state(
        self, command: SyncDocument
    ) -> tuple[KnowledgeBase | None, Document | None, IndexedDocument | None]:
        organization_id, kb_id, document_id = command.organization_id, command.kb_id, command.document_id
        return await run_three_or_cancel(
            self._state_reader.knowledge_base(OrganizationKey(organization_id, kb_id)),
            self._state_reader.document(OrganizationKey(organization_id, document_id)),
            self._state_reader.indexed(MembershipKey(organization_id, kb_id, document_id)),
        )

    async def _decide_action(
        self, kb: KnowledgeBase, document: Document | None, indexed: IndexedDocument | None, *, force: bool
    ) -> Action:
        action = decide(document, kb, indexed)
        if action not in _WITHOUT_NEW_CHUNKS or indexed is None:
            return action
        if force:
            return Action.INDEX
        live = await self._state_reader.live_chunks(kb, indexed.document_id)
        return action if live == indexed.chunk_count else Action.INDEX

    async def _apply_action(
        self,
        action: Action,
        job: IndexJob,
        *,
        kb: KnowledgeBase,
        document: Document | None,
        indexed: IndexedDocument | None,
    ) -> None:
        if action is Action.WAIT:
            await index_jobs.wait_for_text(self._database, job)
        elif action is Action.NOTHING:
            await self._leases.close_job(job, finished=await index_jobs.finish(self._database, job))
        elif action is Action.REMOVE or document is None:
            await self._remove(job, kb, document)
        elif kb.paused_at is not None:
            await self._leases.close_job(job, finished=await pause_job(self._database, job))
            log.info("document.paused", action=action)
        else:
            await self._refuse_sensitive(action, job, kb=kb, document=document, indexed=indexed)
            if action in _WITHOUT_NEW_CHUNKS and indexed is not None:
                check_metadata_size(document.metadata_values, chunks=indexed.chunk_count)
                await self._refresh(job, kb, document)
            else:
                await self._index(job, kb, document)

    async def _refuse_sensitive(
        self, action: Action, job: IndexJob, *, kb: KnowledgeBase, document: Document, indexed: IndexedDocument | None
    ) -> None:
        """Raise SensitiveDocument if the KB refuses the document; what may have a credential is removed from it before.

        An earlier version that was checked stays, as after any other failure.
        """
        try:
            with_text = action in (Action.INDEX, Action.CHECK)
            await self._sensitive_documents.refuse(kb, document, with_text=with_text)
        except SensitiveDocument as refused:
            if indexed is not None and (
                not indexed.content_checked or (refused.is_in_text and _is_text_of(document, indexed))
            ):
                await self._remove(job, kb, document, keeps_job=True)
            raise

    async def _remove(
        self, job: IndexJob, kb: KnowledgeBase, document: Document | None, *, keeps_job: bool = False
    ) -> None:
        async with self._leases.for_swap(job):
            with self._load.timed(), tracing.span(spans.SWAP, {"kb.swap.kind": "remove"}) as span:
                removed = await remove_document(
                    self._database,
                    job,
                    kb,
                    document=document,
                    keeps_job=keeps_job,
                    lifetime_s=self._lifetime_s,
                )
                span.set({"kb.chunks.retired": removed.retired})
        await reach("removal.after_commit")
        if keeps_job:
            pass
        elif awaits_text(document, kb):
            await index_jobs.wait_for_text(self._database, job)
        else:
            await self._leases.close_job(job, finished=removed.finished)
        log.info("document.removed", chunks=removed.retired)

    async def _refresh(self, job: IndexJob, kb: KnowledgeBase, document: Document) -> None:
        async with self._swapping(job, kb, kind="refresh"):
            swapped = await replace_document(
                self._database, job, kb, document=document, chunks=None, lifetime_s=self._lifetime_s
            )
        await reach("swap.after_commit")
        await self._leases.close_job(job, finished=swapped.finished)
        log.info("document.refreshed")

    async def _index(self, job: IndexJob, kb: KnowledgeBase, document: Document) -> None:
        began = perf_counter()
        if kb.embedding_dimensions == UNKNOWN_DIMENSIONS:
            raise KnowledgeBaseNotReady
        await self._size_limits.check(kb, document.document_id)
        async with self._deletions.interrupting(kb), self._embedder.allowance(kb.organization_id) as allowance:
            if job.error_type is not None:
                # The provider may still be out: jobs that wait for it must not take the chunking threads from others.
                await self._check_provider(kb, allowance)
            chunks = await self._chunk(kb, document, allowance)
            await self._size_limits.check(kb, document.document_id, chunks=len(chunks))
            check_metadata_size(document.metadata_values, chunks=len(chunks))
            await reach("sync.after_chunking")
            chunked = perf_counter()
            async with noting_embedded(self._database, job, chunks=len(chunks)) as note_missing:
                embedded = await self._embed(chunks, kb, allowance, on_missing=note_missing)
        embedding_done = perf_counter()
        rows = [_embedded_chunk(chunk, vector) for chunk, vector in zip(chunks, embedded.vectors, strict=True)]
        async with self._swapping(job, kb, kind="replace") as span:
            swapped = await replace_document(
                self._database,
                job,
                kb,
                document=document,
                chunks=rows,
                space=embedded.space,
                work=IndexingWork(round(embedding_done - began, 4), embedded.generated, embedded.cached),
                lifetime_s=self._lifetime_s,
            )
            span.set(
                {
                    "kb.chunks": len(rows),
                    "kb.chunks.inserted": len(swapped.inserted),
                    "kb.chunks.retired": swapped.retired,
                }
            )
        await reach("swap.after_commit")
        EVENT_PROCESSING_SECONDS.labels("chunk").observe(chunked - began)
        EVENT_PROCESSING_SECONDS.labels("embed").observe(embedding_done - chunked)
        EVENT_PROCESSING_SECONDS.labels("swap").observe(perf_counter() - embedding_done)
        CHUNKS_INDEXED.labels(kb.kb_id).inc(len(swapped.inserted))
        await self._leases.close_job(job, finished=swapped.finished)
        self._watch(job, kb, rows=rows, swapped=swapped)
        log.info(
            "document.indexed",
            chunks=len(rows),
            inserted=len(swapped.inserted),
            retired=swapped.retired,
            cache_hits=embedded.cached,
            embeddings=embedded.generated,
            duration_s=round(perf_counter() - began, 4),
        )

    async def _check_provider(self, kb: KnowledgeBase, allowance: SpendAllowance) -> None:
        await self._embedder.check_available(
            model=kb.embedding_model, purpose=_purpose(kb), rate_limits=kb.rate_limits, allowance=allowance
        )

    async def _chunk(self, kb: KnowledgeBase, document: Document, allowance: SpendAllowance) -> list[Chunk]:
        with tracing.span(spans.CHUNK) as span:
            if document.text is None:
                raise StaleDecision
            stored = await self._state_reader.text(OrganizationKey(kb.organization_id, document.text.text_id))
            if stored is None:
                raise TransientError("the text of this revision is not stored")
            chunks = await chunk_document(
                stored, kb, embedder=self._embedder, allowance=allowance, threads=self._threads
            )
            span.set({"kb.chunks": len(chunks)})
            return chunks

    async def _embed(
        self, chunks: Sequence[Chunk], kb: KnowledgeBase, allowance: SpendAllowance, *, on_missing: NoteMissing
    ) -> Embedded:
        with tracing.span(spans.EMBED, {"kb.chunks": len(chunks)}) as span:
            embedded = await self._embedder.embed(
                [chunk.embedded_text for chunk in chunks],
                model=kb.embedding_model,
                dimensions=kb.embedding_dimensions,
                purpose=_purpose(kb),
                origin=origin_of(kb),
                rate_limits=kb.rate_limits,
                allowance=allowance,
                on_missing=on_missing,
            )
            span.set({"kb.cache_hits": embedded.cached, "kb.embeddings": embedded.generated})
            return embedded

    @asynccontextmanager
    async def _swapping(
        self, job: IndexJob, kb: KnowledgeBase, *, kind: Literal["refresh", "replace"]
    ) -> AsyncIterator[TraceSpan]:
        """Hold the lease for a swap in the block. Documents with the same KB slot take turns."""
        with tracing.span(spans.SWAP, {"kb.swap.kind": kind}) as span:
            async with (
                self._locks.lock(kb_slots.row_id(kb_id=kb.kb_id, document_id=job.document_id)),
                self._leases.for_swap(job),
            ):
                with self._load.timed():
                    yield span

    def _watch(self, job: IndexJob, kb: KnowledgeBase, *, rows: list[EmbeddedChunk], swapped: SwapResult) -> None:
        if not swapped.inserted:
            return
        self._probe.watch(
            vectors.chunks_of(self._database, kb),
            job.document_id,
            vectors.chunk_ids(job.document_id, rows)[swapped.inserted[-1]],
            ids=swapped.inserted,
            version=swapped.version,
            retired=swapped.retired > 0,
            occurred_at=job.occurred_at,
            path=job.reason,
        )


def _is_text_of(document: Document, indexed: IndexedDocument) -> bool:
    return document.text is not None and document.text.text_id == indexed.content_digest


def _purpose(kb: KnowledgeBase) -> Purpose:
    return Purpose(kb.organization_id, kb.kb_id, "index", "document")


def _embedded_chunk(chunk: Chunk, vector: Vector) -> EmbeddedChunk:
    return EmbeddedChunk(
        chunk_index=chunk.chunk_index,
        chunk_hash=chunk.chunk_hash,
        passage_hash=chunk.passage_hash,
        text=chunk.text,
        vector=vector,
        token_count=chunk.token_count,
        start=chunk.start,
        end=chunk.end,
        page_start=chunk.page_start,
        page_end=chunk.page_end,
        heading_path=chunk.heading_path,
        chunk_type=chunk.chunk_type,
        embedding_text=chunk.embedding_text,
        spellings=chunk.spellings,
    )
