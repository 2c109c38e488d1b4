"""Explains why a document is, or is not, in a KB: its events, the tags of the KB, and the open work."""

from dataclasses import dataclass
from typing import Final

from kb_api.documents_of_knowledge_base import ListedDocument, find_document
from kb_contracts.api.memberships import DocumentStatus, OpenJobStatus
from kb_shared.errors import NotFound, SensitiveDocument
from kb_shared.membership import Action, belongs, decide
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_index import IndexedDocument
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase

_TO_BE_DONE: Final = {
    Action.INDEX: "It has not been indexed yet, or its text or the KB's settings have changed since.",
    Action.CHECK: "It has to be checked for credentials, which this knowledge base refuses.",
    Action.REFRESH: "Its name, tags, date or metadata have changed since it was indexed.",
    Action.ACKNOWLEDGE: "It has a new revision with the same content.",
    Action.WAIT: "It has a tag of this knowledge base, but its text has not arrived.",
}
_BEING_DONE: Final[dict[OpenJobStatus, str]] = {
    "waiting_for_text": "It is indexed as soon as the text arrives.",
    "pending": "It is queued.",
    "running": "It is being worked on.",
    "failed": "All attempts have failed; once the cause is fixed, POST .../retry-failed tries again.",
    "paused": "It waits until the knowledge base is resumed.",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    kb: KnowledgeBase
    status: DocumentStatus
    reason: str
    document: Document | None
    """Document as its events describe it; None before the first event."""
    events: list[AppliedEvent]
    indexed: IndexedDocument | None
    job: IndexJob | None
    listed: ListedDocument | None


async def explain_document(database: Database, organization_id: str, *, kb_id: str, document_id: str) -> Explanation:
    """Find out why a document is, or is not, in a KB. Raises NotFound if there is no such KB or document."""
    key = MembershipKey(organization_id, kb_id, document_id)
    kb = await knowledge_bases.get(database, key.knowledge_base)
    # Read what is indexed before what should be, for the reason given in `kb_shared.membership.drift`.
    indexed = await document_index.find(database, key)
    document = await documents.find(database, key.document)
    job = await index_jobs.find(database, key)
    if document is None and indexed is None and job is None:
        raise NotFound("document")
    listed = await find_document(database, kb, document_id)
    status: DocumentStatus = listed.status if listed else "not_in_knowledge_base"
    return Explanation(
        kb=kb,
        status=status,
        reason=describe_reason(document, kb, indexed=indexed, status=status, job=job),
        document=document,
        events=await documents.find_last_events(database, key.document),
        indexed=indexed,
        job=job,
        listed=listed,
    )


def describe_reason(
    document: Document | None,
    kb: KnowledgeBase,
    *,
    indexed: IndexedDocument | None,
    status: DocumentStatus,
    job: IndexJob | None = None,
) -> str:
    """Explain in words why the document is, or is not, in the KB."""
    action = decide(document, kb, indexed)
    if action is Action.NOTHING:
        what = "It is indexed and up to date." if indexed else _why_not(document, kb)
    elif action is Action.REMOVE:
        what = f"It must be removed: {_why_not(document, kb)}"
    else:
        what = _TO_BE_DONE[action]
    done = next((text for state, text in _BEING_DONE.items() if state == status), None)
    if status == "pending" and job is not None and job.error_type in {"provider_paused", "other_vectors"}:
        done = f"It waits: {job.error_message}."
    if status == "failed" and job is not None and job.error_type == SensitiveDocument.error_type:
        done = f"It is refused: {job.error_message}."
    if done is None and action is not Action.NOTHING:
        done = "No work is queued for it; the reconciler queues it in its next pass."
    return f"{what} {done}" if done else what


def _why_not(document: Document | None, kb: KnowledgeBase) -> str:
    if document is None:
        return "No event for this document has arrived."
    if belongs(document, kb):
        return "It belongs here."
    if not document.alive:
        return "It is deleted." if document.deleted_revision is not None else "Its text has not arrived."
    return "It has none of the tags of this knowledge base."
