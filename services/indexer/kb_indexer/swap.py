"""Swaps what is indexed of a document in a KB, or removes it: each is one transaction.

The decision to swap rests on rows that others change at the same time: the document may be deleted or untagged or get
another text, the KB may be deleted, paused or retagged. Reading these rows again in the transaction would not stop a
change between the read and the commit (write skew). So the transaction writes them, each under the condition that it is
still as the decision assumed. Such a conditional write is called a fence. A change by another process then comes

1. before the transaction: the condition of the fence matches nothing. `StaleDecision` is raised, nothing is written,
   and the caller decides again;
2. during the transaction: both write the same row, so MongoDB aborts one of them. If it aborts ours, `in_transaction`
   repeats it, which is case 1;
3. after the commit: it finds the document swapped, and its own command brings the document up to date.

The steps of a swap, in this order. What conflicts most comes first, because chunks with their vectors are expensive to
write and would be written for nothing:

1. the row of `document_index`: gets the next version; two swaps of one document conflict here;
2. the row of `documents`: the fence of the document (alive, the text that was embedded, a tag of the KB);
3. a KB slot: the fence of the KB (live, not paused, the tags of the decision) and its counters;
4. the row of `index_jobs`: the job ends, unless it was requested again meanwhile;
5. the chunks: new ones are inserted, the others are kept or retired;
6. the message to upstreams, in the outbox.

Example: version 4 of a document has the chunks A and B, its new text has A and C. The swap is version 5. A stays live,
C is inserted with `since = 5`, B is retired with `until = 4`. A search shows A and B before the commit, A and C after.
Had the document been deleted after the decision, step 2 would match nothing: no chunk, no counter and no message of
version 5 would exist, and the next decision would remove version 4.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from kb_contracts.outcomes import DocumentIndexed, DocumentRemoved
from kb_indexer.source import SOURCE
from kb_shared.errors import TransactionExpired, TransientError
from kb_shared.failpoints import reach
from kb_shared.membership import awaits_text
from kb_shared.messaging.announcements import Announcement, announce
from kb_shared.mongo import document_index, documents, index_jobs, kb_slots, vectors
from kb_shared.mongo.chunks_digest import chunks_digest, vectors_digest
from kb_shared.mongo.database import TRANSACTION_LIFETIME_S, Database, MongoSession, in_transaction
from kb_shared.mongo.document_index import IndexedDocument, IndexingWork
from kb_shared.mongo.documents import Document, chunk_metadata_digest
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import to_binary
from kb_shared.mongo.vectors import ChunkMetadata, EmbeddedChunk
from kb_shared.observability.metrics import SWAP_TRANSACTIONS
from kb_shared.text.metadata_pairs import metadata_pairs

SWAP_WITHIN_S: Final = 30.0
"""Time limit of a swap, which may write some thousand chunks with vectors. If MongoDB keeps transactions for longer,
that is the limit: a large document on a slow machine needs it."""


log = structlog.get_logger()


class StaleDecision(Exception):
    """The document or the KB is no longer as it was when the action was decided: decide again."""


@dataclass(frozen=True, slots=True)
class SwapResult:
    """Outcome of a transaction that was committed."""

    version: int
    inserted: tuple[str, ...]
    """Ids of the chunks that the search index does not know yet."""
    retired: int
    """Number of chunks that are no longer live."""
    finished: bool
    """True unless the job was requested again meanwhile."""


@dataclass(slots=True)
class _Swap:
    """A swap or removal, over all attempts of its transaction."""

    database: Database
    job: IndexJob
    kb: KnowledgeBase
    attempts: int = 0
    """Number of attempts of the transaction."""
    writes: int = 0
    """Number of attempts that have passed the fences and begun to write chunks."""

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
    *,
    document: Document,
    chunks: Sequence[EmbeddedChunk] | None,
    space: VectorSpace | None = None,
    work: IndexingWork | None = None,
    lifetime_s: float = TRANSACTION_LIFETIME_S,
) -> SwapResult:
    """Replace what is indexed of `document` by `chunks`, with counters, job and the message to upstreams.

    Args:
        document: as it was when the chunks were made.
        chunks: None keeps the stored ones and only updates what they carry of the document.
        space: space of the vectors of `chunks`.
        work: what it took to make `chunks`.
        lifetime_s: after how long MongoDB ends a transaction.

    Raises:
        StaleDecision: the document or the KB changed meanwhile; nothing was written.
        TransactionExpired: it took too long; nothing was written.
        TransientError: ten write conflicts in a row, or the outcome of the commit stays unknown.
    """
    swap = _Swap(database, job, kb)
    with _count_outcome(swap):
        return await in_transaction(
            database,
            partial(_replace, swap, document=document, chunks=chunks, space=space, work=work),
            within_s=max(SWAP_WITHIN_S, lifetime_s),
            lifetime_s=lifetime_s,
        )


async def remove_document(
    database: Database,
    job: IndexJob,
    kb: KnowledgeBase,
    *,
    document: Document | None,
    keeps_job: bool = False,
    lifetime_s: float = TRANSACTION_LIFETIME_S,
) -> SwapResult:
    """Delete everything of the document from the KB at once, live and retired.

    Args:
        keeps_job: the job is not done by this, because the caller goes on with it.

    Raises: as `replace_document`.
    """
    swap = _Swap(database, job, kb)
    with _count_outcome(swap):
        return await in_transaction(
            database,
            partial(_remove, swap, document=document, keeps_job=keeps_job),
            within_s=max(SWAP_WITHIN_S, lifetime_s),
            lifetime_s=lifetime_s,
        )


async def pause_job(database: Database, job: IndexJob) -> bool:
    """Keep `job` until its KB is resumed; return False if it was requested again meanwhile.

    Raises:
        StaleDecision: the KB was resumed, and the jobs that it kept are due already.
    """

    async def work(session: MongoSession) -> bool:
        paused = await kb_slots.fence_paused(database, session, job.key)
        if not paused:
            raise StaleDecision
        return await index_jobs.pause(database, job, session)

    return await in_transaction(database, work)


@contextmanager
def _count_outcome(swap: _Swap) -> Iterator[None]:
    """Count how the transaction of the block ends, and log how often its chunks were written for nothing."""
    committed = 0
    try:
        yield
        committed = 1
    except StaleDecision:
        SWAP_TRANSACTIONS.labels("fenced").inc()
        raise
    except TransactionExpired:
        SWAP_TRANSACTIONS.labels("expired").inc()
        raise
    except TransientError:
        SWAP_TRANSACTIONS.labels("conflict").inc()
        raise
    finally:
        if swap.writes > committed:
            log.info("swap.undone", times=swap.writes - committed)
    SWAP_TRANSACTIONS.labels("committed").inc()


async def _replace(
    swap: _Swap,
    session: MongoSession,
    *,
    document: Document,
    chunks: Sequence[EmbeddedChunk] | None,
    space: VectorSpace | None,
    work: IndexingWork | None,
) -> SwapResult:
    swap.attempts += 1
    version, before = await document_index.begin_swap(swap.database, session, swap.key)
    await reach("swap.after_row")
    fenced = await documents.fence_content(swap.database, session, document, any_of_tags=swap.kb.tag_ids)
    if fenced is None or (chunks is None and not _is_indexed_as(before, document, swap.kb)):
        raise StaleDecision
    current, sequence = fenced
    if swap.kb.refuse_sensitive and chunk_metadata_digest(current) != chunk_metadata_digest(document):
        # What the document carries now was not checked for credentials.
        raise StaleDecision
    await reach("swap.after_fence")
    if chunks is None and before is not None:
        stored = _keep(before)
    else:
        stored = _summarize(swap.document_id, chunks or (), space, work=work)
    indexed = _indexed(swap.kb, current, version=version, stored=stored)
    await _fence_knowledge_base(swap, session, before=before, after=indexed)
    await reach("swap.after_slot")
    # Before the chunks: a newer request then waits for this transaction instead of making it write them again.
    finished = await index_jobs.finish(swap.database, swap.job, session)
    await reach("swap.after_job")
    swap.writes += 1
    # A document that is not in the KB has no chunks there, not even retired ones, so the first attempt reads none. If
    # some are left all the same, their ids collide, and the next attempt reads them.
    is_clean = before is None and swap.attempts == 1
    inserted, retired = await _write_chunks(
        swap, session, document=current, chunks=chunks, before=before, indexed=indexed, is_clean=is_clean
    )
    await document_index.finish_swap(swap.database, session, indexed)
    await reach("swap.after_chunks")
    outcome = DocumentIndexed(
        organization_id=swap.kb.organization_id,
        kb_id=swap.kb.kb_id,
        document_id=swap.document_id,
        revision=indexed.text_revision,
        chunk_count=indexed.chunk_count,
        warnings=current.warnings or None,
    )
    await announce(swap.database, session, Announcement(outcome, sequence), source=SOURCE)
    await reach("swap.before_commit")
    return SwapResult(version, inserted, retired, finished)


@dataclass(frozen=True, slots=True)
class _LiveChunks:
    """Facts about the live chunks after a swap."""

    count: int
    digest: int | None
    vectors_digest: int | None
    space: VectorSpace | None
    work: IndexingWork | None


def _keep(before: IndexedDocument) -> _LiveChunks:
    return _LiveChunks(
        before.chunk_count, before.chunks_digest, before.vectors_digest, before.vector_space, before.work
    )


def _summarize(
    document_id: str, chunks: Sequence[EmbeddedChunk], space: VectorSpace | None, *, work: IndexingWork | None
) -> _LiveChunks:
    ids = vectors.chunk_ids(document_id, chunks)
    return _LiveChunks(
        len(ids),
        chunks_digest({chunk_id: chunk.chunk_index for chunk_id, chunk in ids.items()}),
        vectors_digest(to_binary(chunk.vector) for chunk in chunks),
        space,
        work,
    )


def _is_indexed_as(before: IndexedDocument | None, document: Document, kb: KnowledgeBase) -> bool:
    """Return whether the stored chunks are those of `document`: others may have replaced them since the decision."""
    text_id = document.text.text_id if document.text else None
    return before is not None and (before.content_digest, before.config_hash) == (text_id, kb.config_hash)


async def _remove(swap: _Swap, session: MongoSession, *, document: Document | None, keeps_job: bool) -> SwapResult:
    # The row is written even if there is none, so that a concurrent swap of the same document conflicts.
    version, before = await document_index.begin_swap(swap.database, session, swap.key)
    await reach("removal.after_row")
    sequence = 0
    if document is not None:
        fenced = await documents.fence_projection(swap.database, session, document)
        if fenced is None:
            raise StaleDecision
        sequence = fenced
    await _fence_knowledge_base(swap, session, before=before, after=None)
    # A document that was deleted and tagged again keeps its job, which waits for the text.
    goes_on = keeps_job or awaits_text(document, swap.kb)
    finished = not goes_on and await index_jobs.finish(swap.database, swap.job, session)
    swap.writes += 1
    await vectors.delete_document(swap.chunks, session, swap.document_id)
    await document_index.delete(swap.database, session, swap.key)
    await reach("removal.after_chunks")
    if before is not None:
        outcome = DocumentRemoved(
            organization_id=swap.kb.organization_id, kb_id=swap.kb.kb_id, document_id=swap.document_id
        )
        await announce(swap.database, session, Announcement(outcome, sequence), source=SOURCE)
    await reach("removal.before_commit")
    return SwapResult(version, (), before.chunk_count if before else 0, finished)


async def _fence_knowledge_base(
    swap: _Swap, session: MongoSession, *, before: IndexedDocument | None, after: IndexedDocument | None
) -> None:
    """Count the change from `before` to `after`, which is None for a removal."""
    passed = await kb_slots.fence_knowledge_base(
        swap.database,
        session,
        swap.key,
        tags_version=swap.kb.tags_version,
        documents=(after is not None) - (before is not None),
        chunks=(after.chunk_count if after else 0) - (before.chunk_count if before else 0),
        even_if_paused=after is None,
    )
    if not passed:
        raise StaleDecision


async def _write_chunks(
    swap: _Swap,
    session: MongoSession,
    *,
    document: Document,
    chunks: Sequence[EmbeddedChunk] | None,
    before: IndexedDocument | None,
    indexed: IndexedDocument,
    is_clean: bool,
) -> tuple[tuple[str, ...], int]:
    """Write the chunks; return the ids of the new ones and the number of those that were retired."""
    metadata = _chunk_metadata(document)
    if chunks is None:
        if before is None or before.chunk_metadata_digest != indexed.chunk_metadata_digest:
            await vectors.update_metadata(swap.chunks, session, swap.document_id, metadata=metadata)
        return (), 0
    changes = vectors.plan_changes(
        scope=swap.chunks.scope,
        document_id=swap.document_id,
        chunks=chunks,
        metadata=metadata,
        version=indexed.version,
        before=() if is_clean else await vectors.find_rows(swap.chunks, session, swap.document_id),
    )
    await vectors.write(swap.chunks, session, changes.writes)
    return changes.inserted, changes.retired


def _chunk_metadata(document: Document) -> ChunkMetadata:
    if document.text is None:
        raise StaleDecision
    return ChunkMetadata(
        document_name=document.text.name,
        tag_ids=document.tag_ids,
        upload_date=document.text.upload_date,
        metadata=document.metadata_values,
        metadata_pairs=metadata_pairs(document.metadata_values),
    )


def _indexed(kb: KnowledgeBase, document: Document, *, version: int, stored: _LiveChunks) -> IndexedDocument:
    if document.text is None:
        raise StaleDecision
    return IndexedDocument(
        organization_id=kb.organization_id,
        kb_id=kb.kb_id,
        document_id=document.document_id,
        version=version,
        chunk_count=stored.count,
        chunks_digest=stored.digest,
        vectors_digest=stored.vectors_digest,
        vector_space=stored.space,
        work=stored.work,
        text_revision=document.text.revision,
        content_digest=document.text.text_id,
        chunk_metadata_digest=chunk_metadata_digest(document),
        config_hash=kb.config_hash,
        document_name=document.text.name,
        # What a KB that refuses credentials indexes was checked before.
        content_checked=kb.refuse_sensitive,
    )
