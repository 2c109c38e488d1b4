"""A document with all the KBs it is in, has to enter or has to leave."""

import asyncio
from dataclasses import dataclass

from kb_api import document_revisions
from kb_api.documents_of_knowledge_base import ListedDocument, find_document
from kb_api.services import Services
from kb_shared.errors import NotFound
from kb_shared.http.authentication import Caller
from kb_shared.membership import membership
from kb_shared.mongo import document_index, documents, index_jobs, knowledge_bases, outbox
from kb_shared.mongo.documents import Document
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.outbox import Unsendable


@dataclass(frozen=True, slots=True)
class Overview:
    document: Document
    """With nothing in it while its first event waits to be handled."""
    accepted_revision: int | None
    unsendable: list[Unsendable]
    """Its events that were accepted over HTTP and that Kafka refused for good."""
    knowledge_bases: list[tuple[KnowledgeBase, ListedDocument | None]]


async def overview_of(api: Services, caller: Caller, document_id: str) -> Overview:
    """Raises NotFound if nothing has been heard of the document."""
    database, organization_id = api.database, caller.organization_id
    accepted_revision = await document_revisions.find(database, organization_id, document_id)
    document = await documents.find(database, organization_id, document_id)
    if document is None and accepted_revision is None:
        raise NotFound("document")
    document = document or Document(organization_id, document_id)
    indexed = await document_index.of_documents(database, organization_id, [document_id])
    jobs = await index_jobs.of_documents(database, organization_id, [document_id])
    known = {row.kb_id for row in indexed.get(document_id, ())} | jobs.get(document_id, {}).keys()
    concerned = membership(document, await knowledge_bases.of_organization(database, organization_id), known)
    states = await asyncio.gather(*(find_document(database, kb, document_id) for kb in concerned))
    unsendable = await outbox.unsendable_of_document(database, organization_id, document_id)
    return Overview(document, accepted_revision, unsendable, list(zip(concerned, states, strict=True)))
