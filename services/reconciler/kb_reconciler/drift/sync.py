"""Repair that most kinds share: a command to the indexer, which decides again behind its fences."""

from collections.abc import Sequence

from kb_contracts.commands import Reason, SyncDocument
from kb_reconciler.drift.kinds import RepairTools
from kb_shared.mongo import index_jobs
from kb_shared.mongo.knowledge_bases import KnowledgeBase


async def request_sync(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    """Queue a command for each document without an open job; return their number."""
    return await _request(tools, kb, document_ids, force=False)


async def request_sync_with_force(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    """Queue a command for each document without an open job, to index it even if nothing seems to have changed."""
    return await _request(tools, kb, document_ids, force=True)


async def _request(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str], *, force: bool) -> int:
    # A document with a job is being worked on, or has failed and waits for a change.
    with_job = await index_jobs.find_open_ids(tools.database, kb.key, document_ids)
    left = [document_id for document_id in document_ids if document_id not in with_job]
    await tools.requests.request(
        [
            SyncDocument(
                organization_id=kb.organization_id,
                kb_id=kb.kb_id,
                document_id=document_id,
                reason=Reason.RECONCILE,
                force=force,
            )
            for document_id in left
        ],
        bulk=True,
    )
    await tools.requests.note_published(after_s=0)
    return len(left)
