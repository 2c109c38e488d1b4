"""Routes of documents: the events of `document-events` over HTTP."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field

from kb_api.dependencies import (
    Database,
    DocumentEventPublisher,
    DocumentReader,
    DocumentWriter,
    Settings,
    StoredBytes,
)
from kb_api.document_overview import DocumentOverview, load_overview
from kb_api.document_request import PatchMetadata, PatchTags, PutDocument, to_deletion
from kb_api.documents_of_knowledge_base import ListedDocument
from kb_api.explain_document import DocumentStatus
from kb_api.publish_document_event import Published
from kb_api.routes.documents_in_kb import DocumentState
from kb_api.routes.knowledge_bases import DocumentError
from kb_api.routes.unsendable_messages import UnsendableMessageView
from kb_api.store_text import store_text
from kb_contracts.documents import DocumentEvent
from kb_contracts.identifiers import is_identifier
from kb_shared.errors import NotFound
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo.knowledge_bases import KnowledgeBase

router = organization_router("documents")

DeletionRevision = Annotated[
    int | None,
    Query(ge=-(2**63), lt=2**63, description="Revision of the deletion. Default: the last known one plus 1."),
]


async def _usable_id(document_id: str) -> str:
    if not is_identifier(document_id):
        raise NotFound("document")
    return document_id


async def _id_to_give(document_id: str) -> str:
    if not is_identifier(document_id):
        raise invalid_field(
            "document_id",
            "Input should be 1 to 128 letters, digits, dots, underscores and hyphens, the same for each revision of "
            "the document; put the file name in `document_name`",
        )
    return document_id


DocumentId = Annotated[str, Depends(_usable_id)]
NewDocumentId = Annotated[str, Depends(_id_to_give)]
"""Id in a request that creates the document if there is none."""


class AcceptedChange(BaseModel):
    """A change that is stored and will be published. `GET /documents/{document_id}` shows its effect."""

    document_id: str
    revision: int = Field(description="Revision of the accepted event: the given one, or the last known one plus 1.")
    changed: bool = Field(
        description="Whether the event can change the document. False if greater revisions of all that it contains are "
        "known; it is published in any case."
    )

    @classmethod
    def from_published(cls, document_id: str, published: Published) -> "AcceptedChange":
        return cls(document_id=document_id, revision=published.revision, changed=published.changes)


class StoredTextView(BaseModel):
    text_ref: str = Field(description="Reference to the text, for the field `text_ref` of an event within a day.")


class MembershipView(BaseModel):
    kb_id: str
    name: str = Field(description="Name of the knowledge base.")
    status: DocumentStatus = Field(description="State of the document in the knowledge base.")
    chunk_count: int = Field(description="Number of chunks that are searchable now.")
    indexed_at: datetime | None = Field(
        description="Time at which the document was last indexed in the knowledge base; null if it is not indexed."
    )
    attempts: int = Field(description="Number of failed or running attempts of the open job.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )

    @classmethod
    def from_listed(cls, kb: KnowledgeBase, listed: ListedDocument | None) -> "MembershipView":
        if listed is None:
            return cls(
                kb_id=kb.kb_id,
                name=kb.name,
                status="not_in_knowledge_base",
                chunk_count=0,
                indexed_at=None,
                attempts=0,
                error=None,
                next_attempt_at=None,
            )
        return cls(
            kb_id=kb.kb_id,
            name=kb.name,
            status=listed.status,
            chunk_count=listed.chunk_count,
            indexed_at=listed.indexed_at,
            attempts=listed.attempts,
            error=DocumentError.from_fields(listed.error_type, listed.error_message),
            next_attempt_at=listed.next_attempt_at,
        )


class DocumentView(DocumentState):
    document_id: str
    upload_date: datetime | None
    content_type: str | None = Field(description="Media type of the original file, as given.")
    metadata: dict[str, Any] = Field(
        description='Metadata of the document. Dates have the form `{"$date": "2026-01-31T00:00:00Z"}`.'
    )
    accepted_revision: int | None = Field(
        description="Greatest revision that was accepted over HTTP; null if there is none."
    )
    unsendable_messages: list[UnsendableMessageView] = Field(
        description="Events of the document that were accepted and then permanently refused by Kafka. They have no "
        "effect yet."
    )
    knowledge_bases: list[MembershipView] = Field(
        description="Knowledge bases that contain the document, must index it or must remove it."
    )

    @classmethod
    def of_overview(cls, overview: DocumentOverview) -> "DocumentView":
        document = overview.document
        return cls(
            **DocumentState.from_document(document).model_dump(),
            document_id=document.document_id,
            upload_date=document.text.upload_date if document.text else None,
            content_type=document.text.content_type if document.text else None,
            metadata={key: _as_given(value) for key, value in document.metadata_values.items()},
            accepted_revision=overview.accepted_revision,
            unsendable_messages=[UnsendableMessageView.from_message(message) for message in overview.unsendable],
            knowledge_bases=[MembershipView.from_listed(kb, listed) for kb, listed in overview.knowledge_bases],
        )


def _as_given(value: Any) -> Any:
    return {"$date": value.isoformat().replace("+00:00", "Z")} if isinstance(value, datetime) else value


@router.get("/documents/{document_id}", summary="Get a document", response_model=DocumentView)
@open_to_limited_keys
async def get(database: Database, caller: DocumentReader, document_id: str) -> DocumentView:
    """Return the document as its events describe it, and its state in each knowledge base.

    A key that is limited to knowledge bases sees a document that is in one of them, and only its state in these.
    """
    overview = await load_overview(database, caller, document_id=document_id)
    return DocumentView.of_overview(overview)


@router.put(
    "/documents/{document_id}",
    summary="Create or replace a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses(409),
)
async def put(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: NewDocumentId, body: PutDocument
) -> AcceptedChange:
    """Publish `document.ocr_completed.v1` with the text of a new or an existing document."""
    return await _publish(publisher, body.to_event(caller, document_id), revision=body.revision)


@router.patch(
    "/documents/{document_id}/tags",
    summary="Replace the tags of a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses(409),
)
async def patch_tags(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: DocumentId, body: PatchTags
) -> AcceptedChange:
    """Publish `document.tags_changed.v1` with all tags of the document."""
    return await _publish(publisher, body.to_event(caller, document_id), revision=body.revision)


@router.patch(
    "/documents/{document_id}/metadata",
    summary="Replace the metadata of a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses(409),
)
async def patch_metadata(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: DocumentId, body: PatchMetadata
) -> AcceptedChange:
    """Publish `document.metadata_changed.v1` with all metadata of the document."""
    return await _publish(publisher, body.to_event(caller, document_id), revision=body.revision)


@router.delete(
    "/documents/{document_id}",
    summary="Delete a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses(409),
)
async def delete(
    publisher: DocumentEventPublisher,
    caller: DocumentWriter,
    document_id: DocumentId,
    revision: DeletionRevision = None,
) -> AcceptedChange:
    """Publish `document.deleted.v1`, which deletes the document with everything up to this revision."""
    return await _publish(publisher, to_deletion(caller, document_id, revision=revision), revision=revision)


async def _publish(publisher: DocumentEventPublisher, event: DocumentEvent, *, revision: int | None) -> AcceptedChange:
    published = await publisher.publish(event, revision=revision)
    return AcceptedChange.from_published(event.document_id, published)


@router.put(
    "/documents/{document_id}/text",
    summary="Store a long text",
    response_model=StoredTextView,
    openapi_extra={
        "requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def put_text(
    database: Database,
    stored_bytes: StoredBytes,
    settings: Settings,
    caller: DocumentWriter,
    *,
    document_id: NewDocumentId,
    request: Request,
) -> StoredTextView:
    """Store a text in UTF-8 that is too large for an event. Then send its `text_ref` in an event of this document."""
    text_ref = await store_text(
        database,
        request,
        organization_id=caller.organization_id,
        document_id=document_id,
        stored_bytes=stored_bytes,
        max_bytes=settings.max_text_bytes,
    )
    return StoredTextView(text_ref=text_ref)
