"""Routes of a document in a KB: the explanation of its state, and its chunks."""

from typing import Annotated

from fastapi import Query

from kb_api.dependencies import Database, Reader
from kb_api.explain_document import Explanation, explain_document
from kb_api.routes.knowledge_bases import document_error
from kb_contracts.api.memberships import (
    ChunkList,
    ChunkView,
    DocumentState,
    EventView,
    ExplanationView,
    IndexedDocumentState,
    JobState,
)
from kb_shared.errors import NotFound
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.vectors import ListedChunk
from kb_shared.observability import tracing

router = organization_router("documents of a knowledge base")


@router.get(
    "/knowledge-bases/{kb_id}/documents/{document_id}/explain",
    operation_id="knowledge_bases.explain_document",
    summary="Explain the state of a document",
    response_model=ExplanationView,
)
async def explain(database: Database, caller: Reader, kb_id: str, document_id: str) -> ExplanationView:
    """Explain why the document is, or is not, in the knowledge base."""
    explanation = await explain_document(database, caller.organization_id, kb_id=kb_id, document_id=document_id)
    return _view(explanation, document_id)


@router.get(
    "/knowledge-bases/{kb_id}/chunks",
    operation_id="knowledge_bases.list_chunks",
    summary="List the chunks of a document",
    response_model=ChunkList,
)
async def list_chunks(
    database: Database,
    caller: Reader,
    kb_id: str,
    document_id: Annotated[str, Query(min_length=1, max_length=128, description="Document whose chunks to list.")],
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ChunkList:
    """Return the chunks of a document as they are indexed now, with texts and positions, without vectors."""
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))

    async def read(session: MongoSession) -> ChunkList:
        indexed = await document_index.find(
            database, MembershipKey(kb.organization_id, kb_id, document_id), session=session
        )
        if indexed is None:
            raise NotFound("document")
        chunks = vectors.chunks_of(database, kb)
        listed, total_count = await vectors.find_page_of_document(chunks, session, document_id, skip=skip, limit=limit)
        return ChunkList(
            document_id=document_id,
            version=indexed.version,
            chunks=[chunk_view(chunk) for chunk in listed],
            total_count=total_count,
        )

    return await in_transaction(database, read)


def _view(explanation: Explanation, document_id: str) -> ExplanationView:
    kb, document, indexed = explanation.kb, explanation.document, explanation.indexed
    tag_ids = document.tag_ids if document else ()
    return ExplanationView(
        kb_id=kb.kb_id,
        document_id=document_id,
        status=explanation.status,
        reason=explanation.reason,
        knowledge_base_tag_ids=list(kb.tag_ids),
        shared_tag_ids=sorted(set(kb.tag_ids) & set(tag_ids)),
        document=document_state(document) if document else None,
        events=[_event_view(event) for event in explanation.events],
        indexed=IndexedDocumentState(
            version=indexed.version,
            chunk_count=indexed.chunk_count,
            text_revision=indexed.text_revision,
            indexed_at=indexed.indexed_at,
        )
        if indexed
        else None,
        job=_job(explanation),
    )


def document_state(document: Document) -> DocumentState:
    return DocumentState(
        document_name=document.text.name if document.text else None,
        alive=document.alive,
        tag_ids=list(document.tag_ids),
        text_revision=document.text.revision if document.text else None,
        tags_revision=document.tags.revision if document.tags else None,
        metadata_revision=document.metadata.revision if document.metadata else None,
        deleted_revision=document.deleted_revision,
    )


def _event_view(event: AppliedEvent) -> EventView:
    return EventView(
        event_id=event.event_id,
        type=event.type,
        revision=event.revision,
        trace_id=tracing.trace_id_of(event.traceparent),
        applied_at=event.applied_at,
    )


def _job(explanation: Explanation) -> JobState | None:
    if (job := explanation.job) is None:
        return None
    return JobState(
        state=job.state,
        reason=job.reason,
        forced=job.force,
        attempts=job.attempts,
        error=document_error(job.error_type, job.error_message),
        requested_at=job.requested_at,
        next_attempt_at=explanation.listed.next_attempt_at if explanation.listed else None,
        trace_id=tracing.trace_id_of(job.traceparent),
    )


def chunk_view(chunk: ListedChunk) -> ChunkView:
    names = ChunkView.model_fields.keys() - {"content"}
    return ChunkView(content=chunk.text, **{name: getattr(chunk, name) for name in names})
