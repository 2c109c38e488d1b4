"""Queues a command for each document that has drift in a KB and has no job there.

A thorough pass also counts the chunks of each document: its row says what was indexed, not what was lost since.

A pass writes no vectors and removes nothing; the indexer decides again, behind its fences.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.errors import TransientError
from kb_shared.membership import Action
from kb_shared.membership.drift import find_drift
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing
from kb_shared.observability.metrics import RECONCILER_QUEUED

_PAGE_SIZE: Final = 200

log = structlog.get_logger()


async def queue_drifted_documents(
    database: Database, requests: IndexRequests, *, count_chunks: bool = False
) -> Counter[str]:
    """Queue commands for all KBs; return the number of documents by action.

    Args:
        count_chunks: also find indexed documents with missing chunks, which reads every chunk.
    Raises:
        TransientError: some KBs could not be checked; the others were.
    """
    queued: Counter[str] = Counter()
    skipped = 0
    for kb in await knowledge_bases.find_active(database):
        tracing.start()
        try:
            queued += await _queue_kb(database, requests, kb, count_chunks=count_chunks)
        except (PyMongoError, TransientError) as error:
            # The other KBs may succeed.
            log.warning("knowledge_base.skipped", kb_id=kb.kb_id, error=type(error).__name__)
            skipped += 1
    for action, number in queued.items():
        RECONCILER_QUEUED.labels(action).inc(number)
    log.info("pass.finished", queued=dict(queued), skipped=skipped, counted_chunks=count_chunks)
    if skipped:
        raise TransientError(f"{skipped} knowledge bases were skipped")
    return queued


async def _queue_kb(
    database: Database, requests: IndexRequests, kb: KnowledgeBase, *, count_chunks: bool
) -> Counter[str]:
    queued: Counter[str] = Counter()
    for scan in (_find_indexed, _find_tagged):
        async for document_ids in _read_pages(scan, database, kb):
            # The queue stays short: the next pass finds the rest.
            open_jobs = await index_jobs.count_open(database, kb.key, limit=BACKLOG_LIMIT)
            if open_jobs >= BACKLOG_LIMIT:
                return queued
            actions = await find_drift(database, kb, document_ids)
            if count_chunks and scan is _find_indexed:
                actions = await _find_incomplete(database, kb, document_ids) | actions
            queued += await _request_documents(database, requests, kb, actions=actions)
    return queued


Scan = Callable[[Database, KnowledgeBase, str | None], Awaitable[list[str]]]
"""Function that reads ids of documents that may concern a KB, in order, after a given id."""


async def _read_pages(scan: Scan, database: Database, kb: KnowledgeBase) -> AsyncIterator[list[str]]:
    after: str | None = None
    while page := await scan(database, kb, after):
        yield page
        after = page[-1]


async def _find_indexed(database: Database, kb: KnowledgeBase, after: str | None) -> list[str]:
    rows = document_index.iterate_kb(database, kb.key, after=after, limit=_PAGE_SIZE)
    return [row.document_id async for row in rows]


async def _find_tagged(database: Database, kb: KnowledgeBase, after: str | None) -> list[str]:
    tagged = documents.iterate_with_tags(
        database, kb.organization_id, tag_ids=kb.tag_ids, after=after, limit=_PAGE_SIZE
    )
    return [document.document_id async for document in tagged]


async def _find_incomplete(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> dict[str, Action]:
    """Find documents with more or fewer live chunks than their row says; the indexer counts again before it acts."""
    rows = await document_index.find_by_ids(database, kb.key, document_ids)
    live = await vectors.count_live(vectors.chunks_of(database, kb), rows.keys())
    return {i: Action.INDEX for i, row in rows.items() if live.get(i, 0) != row.chunk_count}


async def _request_documents(
    database: Database, requests: IndexRequests, kb: KnowledgeBase, *, actions: Mapping[str, Action]
) -> Counter[str]:
    # A document with a job is being worked on, or has failed and waits for a change.
    with_job = await index_jobs.find_open_ids(database, kb.key, list(actions))
    left = {document_id: action for document_id, action in actions.items() if document_id not in with_job}
    await requests.request(
        [
            SyncDocument(
                organization_id=kb.organization_id, kb_id=kb.kb_id, document_id=document_id, reason=Reason.RECONCILE
            )
            for document_id in left
        ],
        bulk=True,
    )
    await requests.note_published(after_s=0)
    return Counter(str(action) for action in left.values())
