"""Routes of a document in a KB: the explanation of its state, and its chunks."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from kb_api.dependencies import Database, Reader
from kb_api.explain_document import DocumentStatus, Explanation, explain_document
from kb_api.routes.knowledge_bases import DocumentError
from kb_contracts.commands import Reason
from kb_shared.errors import NotFound
from kb_shared.http.limited_keys import closed_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.vectors import ListedChunk
from kb_shared.observability import tracing

router = organization_router("documents of a knowledge base")


class EventView(BaseModel):
    event_id: str = Field(description="Id of the CloudEvent.")
    type: str = Field(description="Type of the event, such as `document.tags_changed.v1`.")
    revision: int = Field(description="Revision that the event sets.")
    trace_id: str | None = Field(description="Id of the W3C trace of the event; null if it has none.")
    applied_at: datetime = Field(description="Time at which the event changed the document.")

    @classmethod
    def from_event(cls, event: AppliedEvent) -> "EventView":
        return cls(
            event_id=event.event_id,
            type=event.type,
            revision=event.revision,
            trace_id=tracing.trace_id_of(event.traceparent),
            applied_at=event.applied_at,
        )


class DocumentState(BaseModel):
    """State of the document as the upstream described it."""

    document_name: str | None = Field(description="Name of the document; null until its text has come.")
    alive: bool = Field(description="Whether the document has a text and is not deleted.")
    tag_ids: list[str]
    text_revision: int | None = Field(description="Revision of the text; null if there is none.")
    tags_revision: int | None = Field(description="Revision of the tags; null if there is none.")
    metadata_revision: int | None = Field(description="Revision of the metadata; null if there is none.")
    deleted_revision: int | None = Field(
        description="Revision of the deletion; null if the document was never deleted."
    )

    @classmethod
    def from_document(cls, document: Document) -> "DocumentState":
        return cls(
            document_name=document.text.name if document.text else None,
            alive=document.alive,
            tag_ids=list(document.tag_ids),
            text_revision=document.text.revision if document.text else None,
            tags_revision=document.tags.revision if document.tags else None,
            metadata_revision=document.metadata.revision if document.metadata else None,
            deleted_revision=document.deleted_revision,
        )


class IndexedDocumentState(BaseModel):
    version: int = Field(description="Number of the last replacement of the chunks of the document, from 1.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    text_revision: int = Field(description="Revision of the indexed text.")
    indexed_at: datetime | None


class JobState(BaseModel):
    state: IndexJobState
    reason: Reason = Field(description="Reason of the job.")
    forced: bool = Field(description="Whether the document is indexed even if nothing has changed.")
    attempts: int = Field(description="Number of attempts so far.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    requested_at: datetime = Field(description="Time of the last request for the document.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )
    trace_id: str | None = Field(description="Id of the W3C trace of the request; null if it has none.")


class ExplanationView(BaseModel):
    kb_id: str
    document_id: str
    status: DocumentStatus = Field(description="State of the document in the knowledge base.")
    reason: str = Field(description="Explanation of the state in words.")
    knowledge_base_tag_ids: list[str] = Field(description="Tags of the knowledge base.")
    shared_tag_ids: list[str] = Field(description="Tags that both the document and the knowledge base have.")
    document: DocumentState | None = Field(
        description="State of the document as its events describe it; null if no event of it has come."
    )
    events: list[EventView] = Field(description="Last events that changed the document, newest first.")
    indexed: IndexedDocumentState | None = Field(
        description="Indexed state of the document; null if it is not indexed."
    )
    job: JobState | None = Field(description="Open or failed job of the document; null if there is none.")

    @classmethod
    def from_explanation(cls, explanation: Explanation, document_id: str) -> "ExplanationView":
        kb, document, indexed = explanation.kb, explanation.document, explanation.indexed
        tag_ids = document.tag_ids if document else ()
        return cls(
            kb_id=kb.kb_id,
            document_id=document_id,
            status=explanation.status,
            reason=explanation.reason,
            knowledge_base_tag_ids=list(kb.tag_ids),
            shared_tag_ids=sorted(set(kb.tag_ids) & set(tag_ids)),
            document=DocumentState.from_document(document) if document else None,
            events=[EventView.from_event(event) for event in explanation.events],
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


def _job(explanation: Explanation) -> JobState | None:
    if (job := explanation.job) is None:
        return None
    return JobState(
        state=job.state,
        reason=job.reason,
        forced=job.force,
        attempts=job.attempts,
        error=DocumentError.from_fields(job.error_type, job.error_message),
        requested_at=job.requested_at,
        next_attempt_at=explanation.listed.next_attempt_at if explanation.listed else None,
        trace_id=tracing.trace_id_of(job.traceparent),
    )


@router.get(
    "/knowledge-bases/{kb_id}/documents/{document_id}/explain",
    summary="Explain the state of a document",
    response_model=ExplanationView,
)
@closed_to_limited_keys
async def explain(database: Database, caller: Reader, kb_id: str, document_id: str) -> ExplanationView:
    """Explain why the document is, or is not, in the knowledge base."""
    explanation = await explain_document(database, caller.organization_id, kb_id=kb_id, document_id=document_id)
    return ExplanationView.from_explanation(explanation, document_id)


class ChunkView(BaseModel):
    chunk_id: str = Field(description="Stable id of the passage, as in `citation` of search results.")
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    content: str = Field(description="Text of the chunk.")
    token_count: int = Field(description="Number of tokens of the content.")
    start: int = Field(description="Position of the first character of the chunk in the text of the document.")
    end: int = Field(description="Position after the last character of the chunk in the text of the document.")
    page_start: int | None = Field(description="First page of the chunk; null if the text has no pages.")
    page_end: int | None = Field(description="Last page of the chunk; null if the text has no pages.")
    heading_path: list[str] = Field(description="Headings above the chunk, outermost first.")
    chunk_type: str = Field(description="Kind of content, such as text or a table.")
    indexed_at: datetime

    @classmethod
    def from_chunk(cls, chunk: ListedChunk) -> "ChunkView":
        return cls(content=chunk.text, **{name: getattr(chunk, name) for name in cls.model_fields if name != "content"})


class ChunkList(BaseModel):
    document_id: str
    version: int = Field(
        description="Version of the indexed document. If it differs between two pages, read from the first page again."
    )
    chunks: list[ChunkView]
    total_count: int = Field(description="Number of chunks of the document.")


@router.get("/knowledge-bases/{kb_id}/chunks", summary="List the chunks of a document", response_model=ChunkList)
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
            chunks=[ChunkView.from_chunk(chunk) for chunk in listed],
            total_count=total_count,
        )

    return await in_transaction(database, read)
