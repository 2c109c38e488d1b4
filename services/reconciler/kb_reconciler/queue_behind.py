"""One pass: every document that is not in a KB as the truth says, and has no job, gets one.

A thorough pass also counts the chunks there are: rows say what was indexed, not what was lost since.

It writes no vectors and removes nothing itself; the indexer decides again, behind its fences.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.drift import find_drift
from kb_shared.errors import TransientError
from kb_shared.membership import Action
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability import tracing
from kb_shared.observability.metrics import RECONCILER_QUEUED

_STRETCH: Final = 200
_CROWDED: Final = 200

log = structlog.get_logger()


async def queue_behind(database: Database, requests: IndexRequests, *, count_chunks: bool = False) -> Counter[str]:
    """Go through all KBs; returns how many documents were queued, by what was to be done about them.

    Args:
        count_chunks: also find indexed documents of which chunks are missing; reads every chunk there is.
    Raises:
        TransientError: some KBs could not be gone through; the others were.
    """
    queued: Counter[str] = Counter()
    passed_over = 0
    for kb in await knowledge_bases.active(database):
        tracing.start()
        try:
            queued += await _queue_of(database, requests, kb, count_chunks=count_chunks)
        except (PyMongoError, TransientError) as error:
            # The others may fare better.
            log.warning("knowledge_base.passed_over", kb_id=kb.kb_id, error=type(error).__name__)
            passed_over += 1
    for action, number in queued.items():
        RECONCILER_QUEUED.labels(action).inc(number)
    log.info("pass.finished", queued=dict(queued), passed_over=passed_over, counted_chunks=count_chunks)
    if passed_over:
        raise TransientError(f"{passed_over} knowledge bases were passed over")
    return queued


async def _queue_of(
    database: Database, requests: IndexRequests, kb: KnowledgeBase, *, count_chunks: bool
) -> Counter[str]:
    queued: Counter[str] = Counter()
    for scan in (_indexed, _tagged):
        async for document_ids in _stretches(scan, database, kb):
            # The queue stays short: what is left over is found in the next pass.
            if await index_jobs.count_open(database, kb.organization_id, kb.kb_id, limit=_CROWDED) >= _CROWDED:
                return queued
            actions = await find_drift(database, kb, document_ids)
            if count_chunks and scan is _indexed:
                actions = await _incomplete(database, kb, document_ids) | actions
            queued += await _queue(database, requests, kb, actions)
    return queued


Scan = Callable[[Database, KnowledgeBase, str | None], Awaitable[list[str]]]
"""Documents that a KB may have to do with, in the order of their ids, after one of them."""


async def _stretches(scan: Scan, database: Database, kb: KnowledgeBase) -> AsyncIterator[list[str]]:
    after: str | None = None
    while stretch := await scan(database, kb, after):
        yield stretch
        after = stretch[-1]


async def _indexed(database: Database, kb: KnowledgeBase, after: str | None) -> list[str]:
    rows = document_index.of_kb(database, kb.organization_id, kb.kb_id, after=after, limit=_STRETCH)
    return [row.document_id async for row in rows]


async def _tagged(database: Database, kb: KnowledgeBase, after: str | None) -> list[str]:
    tagged = documents.with_tags(database, kb.organization_id, kb.tag_ids, after=after, limit=_STRETCH)
    return [document.document_id async for document in tagged]


async def _incomplete(database: Database, kb: KnowledgeBase, document_ids: Sequence[str]) -> dict[str, Action]:
    """Find documents with more or fewer live chunks than their row says; the indexer counts again before it acts."""
    rows = await document_index.by_ids(database, kb.organization_id, kb.kb_id, document_ids)
    live = await vectors.count_live(vectors.chunks_of(database, kb), rows.keys())
    return {i: Action.INDEX for i, row in rows.items() if live.get(i, 0) != row.chunk_count}


async def _queue(
    database: Database, requests: IndexRequests, kb: KnowledgeBase, actions: Mapping[str, Action]
) -> Counter[str]:
    # Whatever has a job is looked after already, or failed and waits for a change.
    looked_after = await index_jobs.open_ids(database, kb.organization_id, kb.kb_id, list(actions))
    left = {document_id: action for document_id, action in actions.items() if document_id not in looked_after}
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
