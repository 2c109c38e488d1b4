"""Requests that one document of a KB is looked at once more: after a failure, or to index it again.

The job is stored and published by the indexer when it is the turn of the KB, so that a request needs no broker.
"""

from datetime import UTC, datetime

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJobState, SyncRequest
from kb_shared.mongo.keys import MembershipKey
from kb_shared.observability import tracing


async def retry_document(database: Database, caller: Caller, *, kb_id: str, document_id: str) -> None:
    """Try a failed document again now, beginning with its first attempt.

    Raises:
        NotFound: no such KB, or no such document in it.
        RequestError: 409 `document-not-failed`.
    """
    key = MembershipKey(caller.organization_id, kb_id, document_id)
    await _require_document(database, key)
    job = await index_jobs.find(database, key)
    # A job that waits for its next attempt has failed before.
    if job is None or (job.state is not IndexJobState.FAILED and job.error_type is None):
        raise RequestError(
            409,
            "document-not-failed",
            "No attempt on this document has failed. POST .../reindex indexes it again in any case.",
        )
    await _request(database, key, force=False)


async def reindex_document(database: Database, caller: Caller, *, kb_id: str, document_id: str) -> None:
    """Index a document again even if nothing has changed, at no cost where vectors are cached.

    Raises:
        NotFound: no such KB, or no such document in it.
    """
    key = MembershipKey(caller.organization_id, kb_id, document_id)
    await _require_document(database, key)
    await _request(database, key, force=True)


async def _require_document(database: Database, key: MembershipKey) -> None:
    kb = await knowledge_bases.get(database, key.knowledge_base)
    document = await documents.find(database, key.document)
    belongs = document is not None and not set(kb.tag_ids).isdisjoint(document.tag_ids)
    if not belongs and await document_index.find(database, key) is None:
        raise NotFound("document")


async def _request(database: Database, key: MembershipKey, *, force: bool) -> None:
    command = SyncDocument(
        organization_id=key.organization_id,
        kb_id=key.kb_id,
        document_id=key.document_id,
        reason=Reason.RETRY,
        force=force,
    )
    await index_jobs.request(database, [SyncRequest([command], tracing.current(), datetime.now(UTC), queued=True)])
