"""A document as it stands in a KB: why it is there or not, and its chunks."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from kb_api.dependencies import Database, Reader
from kb_api.explain_document import DocumentStatus, Explanation, explain_document
from kb_api.routes.knowledge_bases import DocumentError
from kb_contracts.commands import Reason
from kb_shared.errors import NotFound
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.routing import organization_router
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import MongoSession, Row, in_transaction
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.observability import tracing

router = organization_router("documents of a knowledge base")


class EventView(BaseModel):
    event_id: str
    type: str
    revision: int
    trace_id: str | None
    applied_at: datetime

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

    document_name: str | None
    alive: bool
    tag_ids: list[str]
    text_revision: int | None
    tags_revision: int | None
    metadata_revision: int | None
    deleted_revision: int | None

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


class IndexState(BaseModel):
    version: int = Field(description="Number of the last swap.")
    chunk_count: int
    text_revision: int
    indexed_at: datetime | None


class JobState(BaseModel):
    state: IndexJobState
    reason: Reason
    forced: bool
    attempts: int
    error: DocumentError | None
    requested_at: datetime
    next_attempt_at: datetime | None
    trace_id: str | None


class ExplanationView(BaseModel):
    kb_id: str
    document_id: str
    status: DocumentStatus
    reason: str
    knowledge_base_tag_ids: list[str]
    shared_tag_ids: list[str]
    document: DocumentState | None
    events: list[EventView] = Field(description="The last ones that changed the document, newest first.")
    indexed: IndexState | None
    job: JobState | None

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
            indexed=IndexState(
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


@router.get("/knowledge-bases/{kb_id}/documents/{document_id}/explain", response_model=ExplanationView)
async def explain(database: Database, caller: Reader, kb_id: str, document_id: str) -> ExplanationView:
    """Why the document is, or is not, in the KB."""
    explanation = await explain_document(database, caller.organization_id, kb_id=kb_id, document_id=document_id)
    return ExplanationView.from_explanation(explanation, document_id)


class ChunkView(BaseModel):
    chunk_id: str
    chunk_index: int
    content: str
    token_count: int
    start: int = Field(description="Character of the document's text at which it begins.")
    end: int
    page_start: int | None
    page_end: int | None
    heading_path: list[str]
    chunk_type: str
    indexed_at: datetime

    @classmethod
    def from_row(cls, row: Row) -> "ChunkView":
        fields = {name: row[name] for name in cls.model_fields if name in row}
        return cls(chunk_id=row["_id"], content=row["chunk_text"], **fields)


class ChunkList(BaseModel):
    document_id: str
    version: int = Field(description="Pages of one version belong together.")
    chunks: list[ChunkView]
    total_count: int


@router.get("/knowledge-bases/{kb_id}/chunks", response_model=ChunkList)
async def list_chunks(
    database: Database,
    caller: Reader,
    kb_id: str,
    document_id: Annotated[str, Query(min_length=1, max_length=128)],
    *,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ChunkList:
    """The chunks of a document as they are indexed now: texts and positions, no vectors."""
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))

    async def read(session: MongoSession) -> ChunkList:
        indexed = await document_index.find(
            database, MembershipKey(kb.organization_id, kb_id, document_id), session=session
        )
        if indexed is None:
            raise NotFound("document")
        chunks = vectors.chunks_of(database, kb)
        rows, total_count = await vectors.page_of_document(chunks, session, document_id, skip=skip, limit=limit)
        return ChunkList(
            document_id=document_id,
            version=indexed.version,
            chunks=[ChunkView.from_row(row) for row in rows],
            total_count=total_count,
        )

    return await in_transaction(database, read)
