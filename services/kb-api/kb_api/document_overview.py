"""A document with all the KBs it is in, has to enter or has to leave."""

from dataclasses import dataclass

from kb_api import document_revisions
from kb_api.documents_of_knowledge_base import ListedDocument, find_document
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.membership import membership
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import Document
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.outbox import Unsendable


@dataclass(frozen=True, slots=True)
class DocumentOverview:
    document: Document
    """Document as projected; empty until its first event is handled."""
    accepted_revision: int | None
    unsendable: list[Unsendable]
    """Events of the document that were accepted over HTTP and that Kafka refused permanently."""
    knowledge_bases: list[tuple[KnowledgeBase, ListedDocument | None]]


async def load_overview(database: Database, caller: Caller, *, document_id: str) -> DocumentOverview:
    """Read a document and its state in each KB that the caller may use.

    Raises:
        NotFound: the document is not known, or in none of the KBs to which the caller is limited.
    """
    organization_id = caller.organization_id
    accepted_revision = await document_revisions.find(database, DocumentKey(organization_id, document_id))
    document = await documents.find(database, DocumentKey(organization_id, document_id))
    if document is None and accepted_revision is None:
        raise NotFound("document")
    document = document or Document(organization_id, document_id)
    indexed = await document_index.find_of_documents(database, organization_id, [document_id])
    jobs = await index_jobs.find_states(database, organization_id, [document_id])
    known = {row.kb_id for row in indexed.get(document_id, ())} | jobs.get(document_id, {}).keys()
    concerned = membership(document, await knowledge_bases.find_of_organization(database, organization_id), known)
    concerned = [kb for kb in concerned if caller.may_use(kb.kb_id)]
    states = await run_all_or_cancel(find_document(database, kb, document_id) for kb in concerned)
    if caller.kb_ids is not None and not any(states):
        raise NotFound("document")
    unsendable = await outbox.find_unsendable_of_document(database, DocumentKey(organization_id, document_id))
    return DocumentOverview(document, accepted_revision, unsendable, list(zip(concerned, states, strict=True)))
