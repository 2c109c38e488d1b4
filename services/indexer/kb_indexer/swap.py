"""Swap what is indexed of a document in a KB, or remove it: each one transaction, conditional writes first.

The writes under conditions are the fences: a deletion, an untagging, a deletion or retagging of the KB that commits
meanwhile makes them match nothing or conflict, and the whole transaction leaves no trace.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from kb_contracts.outcomes import DocumentIndexed, DocumentRemoved
from kb_indexer.source import SOURCE
from kb_shared.errors import TransactionExpired, TransientError
from kb_shared.failpoints import reach
from kb_shared.membership import awaits_text, snapshot_digest
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import document_index, documents, index_jobs, kb_slots, vectors
from kb_shared.mongo.database import TRANSACTION_LIFETIME_S, Database, MongoSession, in_transaction
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import Document
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vectors import ChunkMetadata, EmbeddedChunk
from kb_shared.observability.metrics import SWAP_TRANSACTIONS
from kb_shared.text.metadata_pairs import metadata_pairs

SWAP_WITHIN_S: Final = 30.0
"""A swap may write some thousand chunks with their vectors. It has as long as MongoDB keeps a transaction, if that is
more: a large document that is alone on a slow machine needs it."""


log = structlog.get_logger()


class FenceBroken(Exception):
    """The truth is no longer what the decision was made for: decide again."""


@dataclass(frozen=True, slots=True)
class Swapped:
    version: int
    inserted: tuple[str, ...]
    """Ids of the chunks that the search index does not know yet."""
    retired: int
    finished: bool
    """No newer request for the document came meanwhile."""


@dataclass(slots=True)
class _Runs:
    """How often a swap has passed its fences and begun to write chunks."""

    number: int = 0


@dataclass(frozen=True, slots=True)
class _Write:
    """One transaction's where and what for."""

    database: Database
    session: MongoSession
    job: IndexJob
    kb: KnowledgeBase
    runs: _Runs

    @property
    def key(self) -> MembershipKey:
        return self.job.key

    @property
    def document_id(self) -> str:
        return self.job.document_id

    @property
    def chunks(self) -> vectors.Chunks:
        return vectors.chunks_of(self.database, self.kb)


async def replace_document(
    database: Database,
    job: IndexJob,
    kb: KnowledgeBase,
    document: Document,
    chunks: Sequence[EmbeddedChunk] | None,
    *,
    lifetime_s: float = TRANSACTION_LIFETIME_S,
) -> Swapped:
    """Make `chunks` what is indexed of `document`; atomically, with counters, job and the message to upstreams.

    Args:
        document: as it was when the chunks were made; another text by now breaks the fence.
        chunks: None keeps those that are there and only renews what they carry of the document.
        lifetime_s: after how long MongoDB ends a transaction.
    Raises:
        FenceBroken: the document or the KB changed meanwhile; nothing was written.
        TransactionExpired: it took too long; nothing was written.
        TransientError: ten write conflicts in a row, or the outcome of the commit stays unknown.
    """
    attempts, runs = count(1), _Runs()

    async def work(session: MongoSession) -> Swapped:
        return await _replace(_Write(database, session, job, kb, runs), document, chunks, attempt=next(attempts))

    return await _commit(database, work, runs, lifetime_s=lifetime_s)


async def remove_document(
    database: Database,
    job: IndexJob,
    kb: KnowledgeBase,
    document: Document | None,
    *,
    lifetime_s: float = TRANSACTION_LIFETIME_S,
) -> Swapped:
    """Delete everything of the document from the KB at once, live and retired.

    Raises: as `replace_document`.
    """
    runs = _Runs()

    async def work(session: MongoSession) -> Swapped:
        return await _remove(_Write(database, session, job, kb, runs), document)

    return await _commit(database, work, runs, lifetime_s=lifetime_s)


async def keep_while_paused(database: Database, job: IndexJob) -> bool:
    """Keep `job` until its KB is resumed; False if it has been requested again meanwhile.

    Raises:
        FenceBroken: the KB has been resumed, and what it kept is being asked for already.
    """

    async def work(session: MongoSession) -> bool:
        paused = await kb_slots.fence_paused(database, session, job.key)
        if not paused:
            raise FenceBroken
        return await index_jobs.pause(database, job, session)

    return await in_transaction(database, work)


async def _commit(
    database: Database, work: Callable[[MongoSession], Awaitable[Swapped]], runs: _Runs, *, lifetime_s: float
) -> Swapped:
    kept = 0
    try:
        swapped = await in_transaction(database, work, within_s=max(SWAP_WITHIN_S, lifetime_s), lifetime_s=lifetime_s)
        kept = 1
    except FenceBroken:
        SWAP_TRANSACTIONS.labels("fenced").inc()
        raise
    except TransactionExpired:
        SWAP_TRANSACTIONS.labels("expired").inc()
        raise
    except TransientError:
        SWAP_TRANSACTIONS.labels("conflict").inc()
        raise
    finally:
        if runs.number > kept:
            log.info("swap.undone", times=runs.number - kept)
    SWAP_TRANSACTIONS.labels("committed").inc()
    return swapped


async def _replace(
    write: _Write, document: Document, chunks: Sequence[EmbeddedChunk] | None, *, attempt: int
) -> Swapped:
    version, before = await _begin(write)
    await reach("swap.after_row")
    fenced = await documents.fence_content(write.database, write.session, document, any_of_tags=write.kb.tag_ids)
    if fenced is None or (chunks is None and not _is_indexed_as(before, document, write.kb)):
        raise FenceBroken
    current, fence = fenced
    await reach("swap.after_fence")
    indexed = _indexed(
        write.kb, current, version, before.chunk_count if chunks is None and before else len(chunks or ())
    )
    await _fence_slot(write, before, indexed)
    await reach("swap.after_slot")
    # Before the chunks: a newer request then waits for this transaction, instead of undoing all that it has written.
    finished = await index_jobs.finish(write.database, write.job, write.session)
    await reach("swap.after_job")
    write.runs.number += 1
    # A document that is not in the KB has no chunks there, not even retired ones: nothing to look at. Should something
    # be left all the same, the ids collide, and the next attempt looks.
    is_clean = before is None and attempt == 1
    inserted, retired = await _write_chunks(write, current, chunks, before, indexed, is_clean=is_clean)
    await document_index.finish_swap(write.database, write.session, indexed)
    await reach("swap.after_chunks")
    outcome = DocumentIndexed(
        organization_id=write.kb.organization_id,
        kb_id=write.kb.kb_id,
        document_id=write.document_id,
        revision=indexed.text_revision,
        chunk_count=indexed.chunk_count,
    )
    await announce(write.database, write.session, Announcement(outcome, fence), source=SOURCE)
    await reach("swap.before_commit")
    return Swapped(version, inserted, retired, finished)


def _is_indexed_as(before: IndexedDocument | None, document: Document, kb: KnowledgeBase) -> bool:
    """Return whether the stored chunks are those of `document`: others may have replaced them since the decision."""
    text_id = document.text.text_id if document.text else None
    return before is not None and (before.content_digest, before.config_hash) == (text_id, kb.config_hash)


async def _remove(write: _Write, document: Document | None) -> Swapped:
    # The row is written even where there is none: only so does a swap of the same document conflict with this.
    version, before = await _begin(write)
    await reach("removal.after_row")
    fence = 0
    if document is not None:
        fenced = await documents.fence_projection(write.database, write.session, document)
        if fenced is None:
            raise FenceBroken
        fence = fenced
    await _fence_slot(write, before, None)
    # A document deleted and tagged since stays with its job, which waits for the text, as if it had never been here.
    waits = awaits_text(document, write.kb)
    finished = not waits and await index_jobs.finish(write.database, write.job, write.session)
    write.runs.number += 1
    await vectors.delete_document(write.chunks, write.session, write.document_id)
    await document_index.delete(write.database, write.session, write.key)
    await reach("removal.after_chunks")
    if before is not None:
        outcome = DocumentRemoved(
            organization_id=write.kb.organization_id, kb_id=write.kb.kb_id, document_id=write.document_id
        )
        await announce(write.database, write.session, Announcement(outcome, fence), source=SOURCE)
    await reach("removal.before_commit")
    return Swapped(version, (), before.chunk_count if before else 0, finished)


async def _begin(write: _Write) -> tuple[int, IndexedDocument | None]:
    return await document_index.begin_swap(write.database, write.session, write.key)


async def _fence_slot(write: _Write, before: IndexedDocument | None, after: IndexedDocument | None) -> None:
    """Count the change from `before` to `after`, which is None for a removal."""
    passed = await kb_slots.fence(
        write.database,
        write.session,
        write.key,
        tags_version=write.kb.tags_version,
        documents=(after is not None) - (before is not None),
        chunks=(after.chunk_count if after else 0) - (before.chunk_count if before else 0),
        even_if_paused=after is None,
    )
    if not passed:
        raise FenceBroken


async def _write_chunks(
    write: _Write,
    document: Document,
    chunks: Sequence[EmbeddedChunk] | None,
    before: IndexedDocument | None,
    indexed: IndexedDocument,
    *,
    is_clean: bool,
) -> tuple[tuple[str, ...], int]:
    """Returns the ids of the new chunks and how many were retired."""
    snapshot = _snapshot(document)
    if chunks is None:
        if before is None or before.snapshot_digest != indexed.snapshot_digest:
            await vectors.set_snapshot(write.chunks, write.session, write.document_id, snapshot=snapshot)
        return (), 0
    changes = vectors.changes(
        scope=write.chunks.scope,
        document_id=write.document_id,
        chunks=chunks,
        snapshot=snapshot,
        version=indexed.version,
        before=() if is_clean else await vectors.stored(write.chunks, write.session, write.document_id),
    )
    await vectors.write(write.chunks, write.session, changes.writes)
    return changes.inserted, changes.retired


def _snapshot(document: Document) -> ChunkMetadata:
    if document.text is None:
        raise FenceBroken
    return ChunkMetadata(
        document_name=document.text.name,
        tag_ids=document.tag_ids,
        upload_date=document.text.upload_date,
        metadata=document.metadata_values,
        metadata_pairs=metadata_pairs(document.metadata_values),
    )


def _indexed(kb: KnowledgeBase, document: Document, version: int, chunk_count: int) -> IndexedDocument:
    if document.text is None:
        raise FenceBroken
    return IndexedDocument(
        organization_id=kb.organization_id,
        kb_id=kb.kb_id,
        document_id=document.document_id,
        version=version,
        chunk_count=chunk_count,
        text_revision=document.text.revision,
        content_digest=document.text.text_id,
        snapshot_digest=snapshot_digest(document),
        config_hash=kb.config_hash,
        document_name=document.text.name,
    )
