"""Routes of a document in a KB: the explanation of its state, and its chunks."""

from typing import Annotated

from fastapi import Query

from kb_api.dependencies import Database, Reader
from kb_api.explain_document import Explanation, explain_document
from kb_api.metadata_keys import find_metadata_keys
from kb_api.passages import ChunkPage, open_passage, read_chunks
from kb_api.routes.knowledge_bases import document_error
from kb_contracts.api.memberships import (
    ChunkList,
    ChunkView,
    DocumentState,
    EventView,
    ExplanationView,
    IndexedDocumentState,
    JobState,
    OpenedChunk,
)
from kb_contracts.api.metadata_keys import MetadataKeyList
from kb_shared.http.limited_keys import closed_to_limited_keys
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.documents import AppliedEvent, Document
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.vectors import ListedChunk
from kb_shared.observability import tracing

router = organization_router("documents of a knowledge base")

Around = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=256,
        description="Id of a chunk of the document: return the page that has it in its middle, and ignore `skip`.",
    ),
]


@router.get(
    "/knowledge-bases/{kb_id}/documents/{document_id}/explain",
    operation_id="knowledge_bases.explain_document",
    summary="Explain the state of a document",
    response_model=ExplanationView,
)
@closed_to_limited_keys
async def explain(database: Database, caller: Reader, kb_id: str, document_id: str) -> ExplanationView:
    """Explain why the document is, or is not, in the knowledge base."""
    explanation = await explain_document(database, caller.organization_id, kb_id=kb_id, document_id=document_id)
    return _view(explanation, document_id)


@router.get(
    "/knowledge-bases/{kb_id}/chunks",
    operation_id="knowledge_bases.list_chunks",
    summary="List the chunks of a document",
    response_model=ChunkList,
    responses=responses("passage-replaced"),
)
async def list_chunks(
    database: Database,
    caller: Reader,
    kb_id: str,
    document_id: Annotated[str, Query(min_length=1, max_length=128, description="Document whose chunks to list.")],
    *,
    around: Around = None,
    skip: Skip = 0,
    limit: Limit = DEFAULT_LIMIT,
) -> ChunkList:
    """Return the chunks of a document as they are indexed now, with texts and positions, without vectors."""
    key = MembershipKey(caller.organization_id, kb_id, document_id)
    return chunk_list(await read_chunks(database, key, around=around, skip=skip, limit=limit))


@router.get(
    "/knowledge-bases/{kb_id}/chunks/{chunk_id}",
    operation_id="knowledge_bases.get_chunk",
    summary="Open a citation",
    response_model=OpenedChunk,
    responses=responses("passage-replaced"),
)
async def get_chunk(database: Database, caller: Reader, kb_id: str, chunk_id: str) -> OpenedChunk:
    """Return the passage that a search result or a citation names by `chunk_id`.

    410 `passage-replaced` if the document has changed since, or has left the knowledge base.
    """
    chunk = await open_passage(database, caller, kb_id=kb_id, chunk_id=chunk_id)
    return OpenedChunk(
        **chunk_view(chunk).model_dump(),
        kb_id=kb_id,
        document_id=chunk.document_id,
        document_name=chunk.document_name,
        upload_date=chunk.upload_date,
        metadata=dict(chunk.metadata),
    )


@router.get(
    "/knowledge-bases/{kb_id}/metadata-keys",
    operation_id="knowledge_bases.list_metadata_keys",
    summary="List the metadata keys of the documents",
    response_model=MetadataKeyList,
)
async def list_metadata_keys(database: Database, caller: Reader, kb_id: str) -> MetadataKeyList:
    """List the metadata keys that searches can filter by, with their types and most frequent values."""
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    return await find_metadata_keys(database, kb)


def chunk_list(page: ChunkPage) -> ChunkList:
    return ChunkList(
        document_id=page.document_id,
        version=page.version,
        chunks=[chunk_view(chunk) for chunk in page.chunks],
        skip=page.skip,
        total_count=page.total_count,
    )


def _view(explanation: Explanation, document_id: str) -> ExplanationView:
    kb, document, indexed = explanation.kb, explanation.document, explanation.indexed
    tag_ids = document.tag_ids if document else ()
    return ExplanationView(
        kb_id=kb.kb_id,
        document_id=document_id,
        status=explanation.status,
        reason=explanation.reason,
        knowledge_base_name=kb.name,
        knowledge_base_tag_ids=list(kb.tag_ids),
        knowledge_base_paused_at=kb.paused_at,
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
        warnings=list(document.warnings),
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
        embedding=explanation.listed.embedding if explanation.listed else None,
        attempts=job.attempts,
        error=document_error(job.error_type, job.error_message),
        requested_at=job.requested_at,
        next_attempt_at=explanation.listed.next_attempt_at if explanation.listed else None,
        trace_id=tracing.trace_id_of(job.traceparent),
    )


def chunk_view(chunk: ListedChunk) -> ChunkView:
    names = ChunkView.model_fields.keys() - {"content"}
    return ChunkView(content=chunk.text, **{name: getattr(chunk, name) for name in names})
