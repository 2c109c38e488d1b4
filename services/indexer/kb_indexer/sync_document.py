"""Bring a document in a KB to what the truth says when this runs: remove it, renew what it carries, or index it.

Duplicates and late commands are harmless, and nobody waits in the partition: what can't be done now goes back to
`index_jobs` with a later time.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Final

import structlog

from kb_contracts.cloudevents import decode
from kb_contracts.commands import INDEX_REQUESTS, SyncDocument, key_of
from kb_contracts.outcomes import DocumentIndexFailed
from kb_indexer.chunk_document import chunk_document
from kb_indexer.chunking import Chunk
from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.deleted_knowledge_bases import DeletedKnowledgeBases
from kb_indexer.job_leases import JobLeases, LeaseLost
from kb_indexer.load import Load
from kb_indexer.record_keys import require_key
from kb_indexer.searchable import SearchableProbe
from kb_indexer.size_limits import SizeLimits
from kb_indexer.source import SOURCE
from kb_indexer.state_reader import StateReader
from kb_indexer.suspect_quarantine import SuspectQuarantine
from kb_indexer.swap import FenceBroken, Swapped, keep_while_paused, remove_document, replace_document
from kb_shared.concurrency.keyed_locks import KeyedLocks
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import (
    BudgetExhausted,
    Parked,
    PermanentError,
    ProviderKeyMissing,
    ProviderKeyRefused,
    ProviderUnavailable,
    TimedOut,
    TransactionExpired,
    TransientError,
    WriteConflicts,
)
from kb_shared.failpoints import reach
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.membership import Action, awaits_text, decide
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo import documents, index_jobs, kb_slots, vectors
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.database import TRANSACTION_LIFETIME_S, Database, MongoSession, in_transaction, mongo_errors
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.vector import Vector
from kb_shared.mongo.vectors import EmbeddedChunk
from kb_shared.observability import tracing
from kb_shared.observability.metrics import (
    CHUNKS_INDEXED,
    EVENT_PROCESSING_SECONDS,
    INDEXING_ERRORS,
    forget_knowledge_base,
)

MAX_ATTEMPTS: Final = 10
MAX_ATTEMPTS_AT_A_BUG: Final = 3
MAX_CRASHES: Final = 10
_MAX_DECISIONS: Final = 10
_LONGEST_DELAY_S: Final = 300.0
_LONGEST_WITHOUT_BUDGET_S: Final = 3_600.0
_AFTER_CONFLICTS_S: Final = 2.0
_SHORTEST_PARKING_S: Final = 5.0
_BEFORE_DECIDING_ANEW_S: Final = 0.05
_MAX_COMMAND_BYTES: Final = 4_096
"""Ours have some 500 bytes."""

log = structlog.get_logger()


Waitable = ProviderUnavailable | ProviderKeyMissing | ProviderKeyRefused | Parked


class InternalError(TransientError):
    """A bug of ours, known by its type only: its message may quote the document."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"an error of the indexer itself ({type(error).__name__}); see its log")


class SyncDocumentHandler:
    """Handler of both lanes of index requests."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        *,
        state_reader: StateReader,
        leases: JobLeases,
        probe: SearchableProbe,
        threads: ChunkingThreads,
        quarantine: SuspectQuarantine,
        deletions: DeletedKnowledgeBases,
        load: Load,
        size_limits: SizeLimits,
        lifetime_s: float = TRANSACTION_LIFETIME_S,
    ) -> None:
        """Wire it; `lifetime_s` is after how long MongoDB ends a transaction."""
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
        self._locks = KeyedLocks()

    def ordering_key(self, record: Record) -> OrderingKey:
        key = (record.key or b"").decode(errors="replace")
        return OrderingKey(organization_id=_organization_of(record), group=key.partition("/")[0], key=key)

    async def handle(self, record: Record) -> None:
        tracing.start(tracing.from_headers(record.headers))
        _, command = decode(record.value, INDEX_REQUESTS)
        require_key(record, key_of(command))
        structlog.contextvars.bind_contextvars(
            organization_id=command.organization_id, kb_id=command.kb_id, document_id=command.document_id
        )
        with self._load.at_work(), mongo_errors():
            async with self._leases.hold(command) as job:
                if job is None:
                    log.debug("job.absent")
                    return
                if job.crashes >= MAX_CRASHES:
                    await self._fail(job, "worker_crashed", "the indexer died again and again at work on nothing else")
                    return
                structlog.contextvars.bind_contextvars(job_token=job.token)
                async with self._at_work_on(job):
                    await reach("sync.after_claim")
                    await self._attempt(command, job)

    @asynccontextmanager
    async def _at_work_on(self, job: IndexJob) -> AsyncIterator[None]:
        """Beside others; alone if workers have died of `job`, or of what was beside it."""
        if not job.is_suspect:
            async with self._quarantine.side_by_side():
                yield
            return
        async with self._quarantine.alone():
            log.warning("document.isolated", crashes=job.crashes)
            await index_jobs.note_alone(self._database, job)
            yield

    async def _attempt(self, command: SyncDocument, job: IndexJob) -> None:
        try:
            with self._load.noticing(), mongo_errors():
                await self._decide_and_act(command, job)
        except (ProviderUnavailable, ProviderKeyMissing, ProviderKeyRefused, Parked) as error:
            await self._requeue_job(job, error)
        except LeaseLost:
            log.warning("document.left_to_another")
        except WriteConflicts as error:
            await self._wait_for_others(job, error, event="document.conflicted")
        except TimedOut as error:
            # Alone with it there is nothing to wait for: a document that never ends in time must not be tried for ever.
            alone = self._load.in_flight == 1
            await self._wait_for_others(job, error, event="document.timed_out", count_attempt=alone)
        except TransientError as error:
            await self._try_later(job, error)
        except PermanentError as error:
            await self._fail(job, error.error_type, str(error))
        except Exception as error:  # a bug: the document says so, and the partition goes on
            log.exception("document.crashed")
            await self._try_later(job, InternalError(error))

    async def _decide_and_act(self, command: SyncDocument, job: IndexJob) -> None:
        for _ in range(_MAX_DECISIONS):
            kb, document, indexed = await self._read_truth(command)
            if kb is None or kb.status is Status.DELETING:
                forget_knowledge_base(command.kb_id)
                await self._close_job(job, finished=await index_jobs.finish(self._database, job))
                return
            action = await self._action(kb, document, indexed, force=job.force)
            try:
                await self._apply_action(action, job, kb, document)
            except FenceBroken:
                log.info("swap.fenced", action=action)
                # A KB about to change holds its fence closed for a moment.
                await asyncio.sleep(_BEFORE_DECIDING_ANEW_S)
                continue
            return
        raise TransientError(f"the document changed {_MAX_DECISIONS} times while it was indexed")

    async def _read_truth(
        self, command: SyncDocument
    ) -> tuple[KnowledgeBase | None, Document | None, IndexedDocument | None]:
        organization_id, kb_id, document_id = command.organization_id, command.kb_id, command.document_id
        return await asyncio.gather(
            self._state_reader.knowledge_base(OrganizationKey(organization_id, kb_id)),
            self._state_reader.document(OrganizationKey(organization_id, document_id)),
            self._state_reader.indexed(MembershipKey(organization_id, kb_id, document_id)),
        )

    async def _action(
        self, kb: KnowledgeBase, document: Document | None, indexed: IndexedDocument | None, *, force: bool
    ) -> Action:
        action = decide(document, kb, indexed)
        if action not in (Action.NOTHING, Action.ACKNOWLEDGE, Action.REFRESH) or indexed is None:
            return action
        if force:
            return Action.INDEX
        live = await self._state_reader.live_chunks(kb, indexed.document_id)
        return action if live == indexed.chunk_count else Action.INDEX

    async def _apply_action(self, action: Action, job: IndexJob, kb: KnowledgeBase, document: Document | None) -> None:
        if action is Action.WAIT:
            await index_jobs.wait_for_text(self._database, job)
        elif action is Action.NOTHING:
            await self._close_job(job, finished=await index_jobs.finish(self._database, job))
        elif action is Action.REMOVE or document is None:
            swapped = await self._remove(job, kb, document)
            await reach("removal.after_commit")
            if awaits_text(document, kb):
                await index_jobs.wait_for_text(self._database, job)
            else:
                await self._close_job(job, finished=swapped.finished)
            log.info("document.removed", chunks=swapped.retired)
        elif kb.paused_at is not None:
            await self._close_job(job, finished=await keep_while_paused(self._database, job, kb))
            log.info("document.kept_back", action=action)
        elif action in (Action.REFRESH, Action.ACKNOWLEDGE):
            swapped = await self._replace(job, kb, document, None)
            await reach("swap.after_commit")
            await self._close_job(job, finished=swapped.finished)
            log.info("document.refreshed")
        else:
            await self._index(job, kb, document)

    async def _index(self, job: IndexJob, kb: KnowledgeBase, document: Document) -> None:
        began = perf_counter()
        purpose = Purpose(kb.organization_id, kb.kb_id, "index", "document")
        await self._size_limits.check(kb, document.document_id)
        async with self._deletions.interrupting(kb), self._embedder.allowance(kb.organization_id) as allowance:
            if job.error_type is not None:
                # What it waited for may not be over: many that wait must not keep the others from being chunked.
                await self._embedder.check_available(
                    model=kb.embedding_model, purpose=purpose, rate_limits=kb.rate_limits, allowance=allowance
                )
            chunks = await self._chunk(kb, document, allowance)
            await self._size_limits.check(kb, document.document_id, chunks=len(chunks))
            await reach("sync.after_chunking")
            chunked = perf_counter()
            embedded = await self._embedder.embed(
                [chunk.embedded_text for chunk in chunks],
                model=kb.embedding_model,
                dimensions=kb.embedding_dimensions,
                purpose=purpose,
                rate_limits=kb.rate_limits,
                allowance=allowance,
            )
        embedding_done = perf_counter()
        rows = [_embedded_chunk(chunk, vector) for chunk, vector in zip(chunks, embedded.vectors, strict=True)]
        swapped = await self._replace(job, kb, document, rows)
        await reach("swap.after_commit")
        EVENT_PROCESSING_SECONDS.labels("chunk").observe(chunked - began)
        EVENT_PROCESSING_SECONDS.labels("embed").observe(embedding_done - chunked)
        EVENT_PROCESSING_SECONDS.labels("swap").observe(perf_counter() - embedding_done)
        CHUNKS_INDEXED.labels(kb.kb_id).inc(len(swapped.inserted))
        await self._close_job(job, finished=swapped.finished)
        self._watch(job, kb, rows, swapped)
        log.info(
            "document.indexed",
            chunks=len(rows),
            inserted=len(swapped.inserted),
            retired=swapped.retired,
            cache_hits=embedded.cached,
            embeddings=embedded.generated,
            duration_s=round(perf_counter() - began, 4),
        )

    async def _replace(
        self, job: IndexJob, kb: KnowledgeBase, document: Document, chunks: Sequence[EmbeddedChunk] | None
    ) -> Swapped:
        async with self._locks.lock(kb_slots.row_id(kb.kb_id, document.document_id)), self._leases.for_swap(job):
            with self._load.timed():
                return await replace_document(self._database, job, kb, document, chunks, lifetime_s=self._lifetime_s)

    async def _remove(self, job: IndexJob, kb: KnowledgeBase, document: Document | None) -> Swapped:
        async with self._leases.for_swap(job):
            with self._load.timed():
                return await remove_document(self._database, job, kb, document, lifetime_s=self._lifetime_s)

    async def _chunk(self, kb: KnowledgeBase, document: Document, allowance: SpendAllowance) -> list[Chunk]:
        if document.text is None:
            raise FenceBroken
        stored = await self._state_reader.text(OrganizationKey(kb.organization_id, document.text.text_id))
        if stored is None:
            raise TransientError("the text of this revision is not stored")
        return await chunk_document(stored, kb, embedder=self._embedder, allowance=allowance, threads=self._threads)

    def _watch(self, job: IndexJob, kb: KnowledgeBase, rows: list[EmbeddedChunk], swapped: Swapped) -> None:
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

    async def _close_job(self, job: IndexJob, *, finished: bool) -> None:
        if not finished and job.lease_owner is not None:
            # A newer request came while this was at work; it is still in `index_jobs`, and due now.
            await index_jobs.give_back(self._database, job, owner=job.lease_owner)

    async def _requeue_job(self, job: IndexJob, error: Waitable) -> None:
        """Wait for provider, key or budget without using up an attempt: however long that is, the document is sound."""
        if isinstance(error, TransientError) and error.error_type == "bad_answer":
            await self._try_later(job, error)
            return
        INDEXING_ERRORS.labels(job.kb_id, error.error_type).inc()
        # Half as long again as it has waited by now: soon at first, seldom in a long outage.
        waited_s = (datetime.now(UTC) - job.requested_at).total_seconds()
        backoff_s = min(max(waited_s / 2, _SHORTEST_PARKING_S), _LONGEST_DELAY_S)
        delay = timedelta(seconds=max(_jittered(backoff_s), _asked_s(error)))
        await index_jobs.postpone(
            self._database,
            job,
            delay=delay,
            error_type=error.error_type,
            error_message=str(error),
            count_attempt=False,
        )
        log.warning("document.parked", error_type=error.error_type, delay_s=delay.total_seconds())

    async def _wait_for_others(
        self, job: IndexJob, error: WriteConflicts | TimedOut, *, event: str, count_attempt: bool = False
    ) -> None:
        """Try again soon. Who was killed in a transaction holds its rows for a minute; and where all were too slow
        together, fewer at once are not.
        """
        if count_attempt and job.attempts >= MAX_ATTEMPTS:
            await self._fail(job, _error_type(error), str(error))
            return
        INDEXING_ERRORS.labels(job.kb_id, _error_type(error)).inc()
        await index_jobs.postpone(
            self._database,
            job,
            delay=timedelta(seconds=_jittered(_AFTER_CONFLICTS_S)),
            error_type=_error_type(error),
            error_message=str(error),
            count_attempt=count_attempt,
        )
        log.warning(event, attempts=job.attempts)

    async def _try_later(self, job: IndexJob, error: TransientError) -> None:
        error_type = _error_type(error)
        if job.attempts >= (MAX_ATTEMPTS_AT_A_BUG if isinstance(error, InternalError) else MAX_ATTEMPTS):
            await self._fail(job, error_type, str(error))
            return
        INDEXING_ERRORS.labels(job.kb_id, error_type).inc()
        backoff_s = _jittered(min(2.0**job.attempts, _LONGEST_DELAY_S))
        delay = timedelta(seconds=max(backoff_s, error.retry_after_s or 0))
        await index_jobs.postpone(self._database, job, delay=delay, error_type=error_type, error_message=str(error))
        log.warning("document.postponed", error_type=error_type, attempts=job.attempts, delay_s=delay.total_seconds())

    async def _fail(self, job: IndexJob, error_type: str, message: str) -> None:
        INDEXING_ERRORS.labels(job.kb_id, error_type).inc()

        async def work(session: MongoSession) -> bool:
            if not await index_jobs.fail(self._database, job, session, error_type=error_type, error_message=message):
                return False
            failure = DocumentIndexFailed(
                organization_id=job.organization_id,
                kb_id=job.kb_id,
                document_id=job.document_id,
                error_type=error_type,
                message=message,
            )
            fences = await documents.raise_fences(self._database, session, job.organization_id, [job.document_id])
            await announce(
                self._database, session, Announcement(failure, fences.get(job.document_id, 0)), source=SOURCE
            )
            return True

        failed = await in_transaction(self._database, work)
        await self._close_job(job, finished=failed)
        log.warning("document.failed", error_type=error_type, attempts=job.attempts)


def _organization_of(record: Record) -> str:
    """Read whose document a command is about; the empty string where it does not say, which `handle` refuses."""
    if record.value is None or len(record.value) > _MAX_COMMAND_BYTES:
        return ""
    try:
        organization_id = json.loads(record.value)["data"]["organization_id"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    return organization_id if isinstance(organization_id, str) else ""


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
    )


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # no secret


def _asked_s(error: Waitable) -> float:
    """How long the error itself asks to wait."""
    match error:
        case ProviderKeyMissing() | ProviderKeyRefused():
            return 0
        case BudgetExhausted():
            # To the end of the month; but a recount may find room before, and raising it makes the job due at once.
            return _jittered(min(error.retry_after_s, _LONGEST_WITHOUT_BUDGET_S))
    return error.retry_after_s or 0


def _error_type(error: TransientError) -> str:
    match error:
        case ProviderUnavailable():
            return error.error_type
        case InternalError():
            return "internal_error"
        case TransactionExpired():
            return "transaction_expired"
        case TimedOut():
            return "overloaded"
    return "mongo_transient"
