"""Counts what a KB contains and what is still to do, and measures pace, cost and sizes."""

from collections.abc import Mapping

from kb_api.indexing_progress import count_all, measure_indexing
from kb_contracts.api.knowledge_bases import KnowledgeBaseStats, SearchIndexView, StateCounts, StorageView
from kb_shared.mongo import (
    chunk_collections,
    document_index,
    knowledge_bases,
    search_indexes,
    spu_ledger,
)
from kb_shared.mongo.chunk_collections import ChunkStorage
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.prices import NANO_USD


async def load_stats(database: Database, key: KnowledgeBaseKey) -> KnowledgeBaseStats:
    """Return the statistics of a KB. Raises NotFound."""
    kb = await knowledge_bases.get(database, key)
    counts = await count_all(database, kb)
    left = await measure_indexing(database, kb, counts)
    recent = await document_index.measure_recent(database, key)
    ever, this_month = await spu_ledger.sum_of_kb(database, key)
    storage = await chunk_collections.measure(database, kb.vector_collection)
    return KnowledgeBaseStats(
        document_count=counts.documents,
        chunk_count=counts.chunks,
        total_documents_with_tags=counts.documents_with_tags,
        states=_states(counts.jobs, counts.documents, empty=await document_index.count_empty(database, key)),
        progress=left.progress,
        remaining_chunk_count=left.chunks,
        eta_s=left.seconds,
        more_arriving=left.more_arriving,
        last_indexed_at=await document_index.find_last_indexed_at(database, key),
        mean_indexing_s=recent.mean_indexing_s,
        cache_hit_ratio=recent.cache_hit_ratio,
        spus=ever.spus,
        usd=ever.nano_usd / NANO_USD,
        spus_this_month=this_month.spus,
        usd_this_month=this_month.nano_usd / NANO_USD,
        storage=storage and _storage_view(storage),
        search_indexes=[
            SearchIndexView(name=index.name, status=index.status, queryable=index.queryable)
            for index in await search_indexes.list_indexes(database[kb.vector_collection])
        ],
    )


def _states(jobs: Mapping[IndexJobState, int], document_count: int, *, empty: int) -> StateCounts:
    return StateCounts(
        indexed=max(0, document_count - empty),
        empty=empty,
        pending=jobs.get(IndexJobState.PENDING, 0),
        running=jobs.get(IndexJobState.RUNNING, 0),
        waiting_for_text=jobs.get(IndexJobState.WAITING_FOR_TEXT, 0),
        failed=jobs.get(IndexJobState.FAILED, 0),
        paused=jobs.get(IndexJobState.PAUSED, 0),
    )


def _storage_view(storage: ChunkStorage) -> StorageView:
    return StorageView(
        chunk_bytes=storage.chunk_bytes,
        stored_bytes=storage.stored_bytes,
        index_bytes=sum(storage.indexes.values()),
        indexes=dict(storage.indexes),
    )
