"""Measures how far the documents of a KB are, and estimates the rest.

Reads counters, up to a thousand jobs with what is known of their documents, and the last charges, whatever the size of
the KB: of more jobs that wait, the others count as those that were read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from kb_api.indexing_estimate import (
    DoneAt,
    IndexedLately,
    OpenDocument,
    WorkLeft,
    estimate_seconds,
    measure_pace,
    measure_size,
    progress,
    weigh,
)
from kb_contracts.commands import Reason
from kb_shared.chunking import ChunkerType
from kb_shared.mongo import backfills, document_index, documents, index_jobs, kb_slots, spu_ledger
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import DocumentSize
from kb_shared.mongo.index_jobs import UNDONE, IndexJob, IndexJobState
from kb_shared.mongo.knowledge_bases import KnowledgeBase

_MOST_READ: Final = 500
"""Number of jobs that are read of those that are worked on, and of those that wait."""
_LAST_INDEXED: Final = 100
_LATE_AFTER: Final = timedelta(seconds=10)
"""Time between an event and its job after which others wait with it to be read."""
_ARRIVED_WITHIN: Final = timedelta(seconds=30)
_CHARACTERS_OF_TOKEN: Final = 3.0
"""Characters of a token, for texts of which nothing else is known."""
_OF_EVENTS: Final = frozenset({Reason.OCR, Reason.TAG, Reason.METADATA, Reason.DELETED})
_GROUPS_BY_MEANING: Final = frozenset({ChunkerType.SEMANTIC, ChunkerType.SDPM})
"""Chunkers that have sentences embedded, too: their charges tell nothing about chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBaseCounts:
    """Counts of a KB."""

    documents: int
    """Number of indexed documents."""
    chunks: int
    documents_with_tags: int
    jobs: Mapping[IndexJobState, int]


@dataclass(frozen=True, slots=True)
class IndexingLeft:
    progress: float = 1.0
    chunks: int = 0
    """Estimated number of chunks that are left."""
    seconds: float | None = None
    more_arriving: bool = False
    """True if events are read late now: documents that are not known yet may be on their way."""


async def count_all(database: Database, kb: KnowledgeBase) -> KnowledgeBaseCounts:
    """Count what `measure_indexing` needs."""
    totals = await kb_slots.sum_counters(database, kb.organization_id, kb_ids=[kb.kb_id])
    document_count, chunk_count = totals.get(kb.kb_id, (0, 0))
    return KnowledgeBaseCounts(
        documents=document_count,
        chunks=chunk_count,
        documents_with_tags=await documents.count_with_tags(database, kb.organization_id, tag_ids=kb.tag_ids),
        jobs=await index_jobs.count_states_of_kb(database, kb.key),
    )


async def measure_indexing(database: Database, kb: KnowledgeBase, counts: KnowledgeBaseCounts) -> IndexingLeft:
    """Measure what is left to do in a KB, and how long it takes."""
    requested = sum(counts.jobs.get(state, 0) for state in UNDONE)
    # A scan requests a part of its documents at a time, and does not know before how many there are.
    missing = counts.documents_with_tags - counts.documents - counts.jobs.get(IndexJobState.FAILED, 0)
    unrequested = max(await backfills.count_unrequested(database, kb.key), missing - requested, 0)
    if not requested and not unrequested:
        return IndexingLeft()
    at_work = await index_jobs.sample_in_states(database, kb.key, [IndexJobState.RUNNING], at_most=_MOST_READ)
    waiting_states = [state for state in UNDONE if state is not IndexJobState.RUNNING]
    waiting = await index_jobs.sample_in_states(database, kb.key, waiting_states, at_most=_MOST_READ)
    last = await document_index.find_last_indexed(database, kb.key, at_most=_LAST_INDEXED)
    open_ids = [job.document_id for job in (*at_work, *waiting)]
    indexed = await document_index.find_by_ids(database, kb.key, open_ids)
    sizes = await documents.find_sizes(
        database, kb.organization_id, document_ids={*open_ids, *(row.document_id for row in last)}
    )
    done = [_indexed_lately(row, sizes.get(row.document_id)) for row in last]
    opened, queued = (
        [_open_document(kb, job, size=sizes.get(job.document_id), indexed=indexed.get(job.document_id)) for job in jobs]
        for jobs in (at_work, waiting)
    )
    work = _sum_work(kb, counts, done=done, at_work=opened, waiting=queued, unrequested=unrequested)
    more_arriving = are_more_arriving([*at_work, *waiting], now=datetime.now(UTC))
    seconds = None if more_arriving else await _estimate(database, kb, work, done=done, jobs=[*at_work, *waiting])
    return IndexingLeft(progress(work, live=counts.chunks), round(work.chunks), seconds, more_arriving)


def are_more_arriving(jobs: Sequence[IndexJob], *, now: datetime) -> bool:
    """Return whether a job was requested just now for an event that is older: then more events wait to be read."""
    return any(
        job.reason in _OF_EVENTS
        and now - job.requested_at < _ARRIVED_WITHIN
        and job.requested_at - job.occurred_at > _LATE_AFTER
        for job in jobs
    )


def _sum_work(
    kb: KnowledgeBase,
    counts: KnowledgeBaseCounts,
    *,
    done: Sequence[IndexedLately],
    at_work: Sequence[OpenDocument],
    waiting: Sequence[OpenDocument],
    unrequested: int,
) -> WorkLeft:
    usual = kb.chunk_size * _CHARACTERS_OF_TOKEN
    characters = measure_size(done, [*at_work, *waiting], usual=usual)
    mean_chunks = counts.chunks / counts.documents if counts.documents else 1.0
    work = weigh(at_work, characters=characters, mean_chunks=mean_chunks)
    if waiting:
        queued = sum(counts.jobs.get(state, 0) for state in UNDONE) - len(at_work)
        read = weigh(waiting, characters=characters, mean_chunks=mean_chunks)
        work += read * max(1.0, queued / len(waiting))
    others = len(at_work) + len(waiting)
    mean_chunks = max(1.0, work.expected / others if others else mean_chunks)
    return work + WorkLeft(uncut=mean_chunks, expected=mean_chunks) * unrequested


async def _estimate(
    database: Database, kb: KnowledgeBase, work: WorkLeft, *, done: Sequence[IndexedLately], jobs: Sequence[IndexJob]
) -> float | None:
    if kb.paused_at is not None or (jobs and all(job.error_type for job in jobs)):
        return None
    seconds = estimate_seconds(work, done=done, vectors_per_s=await _find_pace(database, kb, done))
    return None if seconds is None else round(seconds, 1)


async def _find_pace(database: Database, kb: KnowledgeBase, done: Sequence[IndexedLately]) -> float | None:
    """Return how many chunks get vectors in a second; None if nothing tells."""
    if kb.chunker_type in _GROUPS_BY_MEANING:
        return measure_pace([(each.at_s, each.embeddings) for each in done if each.embeddings])
    charged = await spu_ledger.find_charged_seconds(database, kb.key, model=kb.embedding_model)
    of_kb: list[DoneAt] = [(each.at.timestamp(), each.spus_of_kb) for each in charged if each.spus_of_kb]
    of_all: list[DoneAt] = [(each.at.timestamp(), each.spus) for each in charged]
    return measure_pace(of_kb) or measure_pace(of_all)


def _open_document(
    kb: KnowledgeBase, job: IndexJob, *, size: DocumentSize | None, indexed: IndexedDocument | None
) -> OpenDocument:
    is_here = size is not None and size.alive and not {*size.tag_ids}.isdisjoint(kb.tag_ids)
    return OpenDocument(
        text_length=size.text_length if size else None,
        chunk_count=job.chunk_count,
        embedded_count=job.embedded_count,
        chunks_before=indexed.chunk_count if indexed else 0,
        keeps_vectors=indexed is not None
        and size is not None
        and (indexed.content_digest, indexed.config_hash) == (size.text_id, kb.config_hash),
        leaves=not is_here,
    )


def _indexed_lately(row: IndexedDocument, size: DocumentSize | None) -> IndexedLately:
    is_of_text = size is not None and size.text_id == row.content_digest
    return IndexedLately(
        at_s=row.indexed_at.timestamp() if row.indexed_at else 0.0,
        chunk_count=row.chunk_count,
        embeddings=row.work.embeddings if row.work else 0,
        cached=row.work.cached if row.work else 0,
        text_length=size.text_length if size and is_of_text else None,
    )
