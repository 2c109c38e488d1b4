"""Routes of documents: the events of `document-events` over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query, Request

from kb_api.accept_documents import accept_documents
from kb_api.dependencies import (
    Database,
    DocumentEventPublisher,
    DocumentReader,
    DocumentWriter,
    SearchableDocuments,
    Settings,
    StoredBytes,
)
from kb_api.document_overview import DocumentOverview, load_overview
from kb_api.document_request import to_deletion, to_metadata_changed, to_ocr_completed, to_tags_changed
from kb_api.documents_of_knowledge_base import ListedDocument
from kb_api.reserved_ids import require_own_document_id
from kb_api.routes.documents_in_kb import document_state
from kb_api.routes.knowledge_bases import document_error
from kb_api.routes.unsendable_messages import message_view
from kb_api.store_text import store_text
from kb_contracts.api.document_batches import BatchOfDocuments, BatchOutcomes
from kb_contracts.api.documents import (
    AcceptedChange,
    DocumentView,
    MembershipView,
    PatchMetadata,
    PatchTags,
    PutDocument,
    StoredTextView,
)
from kb_contracts.documents import DocumentEvent
from kb_contracts.identifiers import is_identifier
from kb_shared.errors import NotFound
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase

router = organization_router("documents")

DEFAULT_WAIT_S: Final = 30.0
MAX_WAIT_S: Final = 60.0

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
            "must be 1 to 128 letters, digits, dots, underscores and hyphens, the same for each revision of "
            "the document; put the file name in `document_name`",
        )
    return document_id


async def _without_body(request: Request) -> None:
    # The other changes have their revision in the body. To ignore it there could delete what is newer.
    if (await request.body()).strip() not in _NO_BODY:
        raise invalid_field("body", "must be empty: the revision of a deletion is a query parameter, ?revision=9")


_NO_BODY: Final = frozenset({b"", b"{}", b"null"})
"""The last two are what some HTTP clients send for no body."""
DocumentId = Annotated[str, Depends(_usable_id)]
NewDocumentId = Annotated[str, Depends(_id_to_give)]
"""Id in a request that creates the document if there is none."""


@router.get(
    "/documents/{document_id}", operation_id="documents.get", summary="Get a document", response_model=DocumentView
)
@open_to_limited_keys
async def get(
    database: Database,
    searchable_documents: SearchableDocuments,
    caller: DocumentReader,
    document_id: str,
    *,
    wait: Annotated[
        Literal["searchable"] | None,
        Query(description="`searchable`: answer when searches find the newest accepted text, or after `timeout_s`."),
    ] = None,
    timeout_s: Annotated[
        float, Query(gt=0, le=MAX_WAIT_S, description=f"Longest wait in seconds. Default: {DEFAULT_WAIT_S:g}.")
    ] = DEFAULT_WAIT_S,
) -> DocumentView:
    """Return the document as its events describe it, and its state in each knowledge base.

    A key that is limited to knowledge bases sees a document that is in one of them, and only its state in these.
    """
    overview = await load_overview(database, caller, document_id=document_id)
    if wait is None:
        return _view(overview)
    searchable = await searchable_documents.wait(DocumentKey(caller.organization_id, document_id), timeout_s=timeout_s)
    overview = await load_overview(database, caller, document_id=document_id)
    return _view(overview).model_copy(update={"searchable": searchable})


@router.post(
    "/documents:batch",
    operation_id="documents.batch",
    summary="Create, change or delete several documents",
    response_model=BatchOutcomes,
)
async def put_batch(publisher: DocumentEventPublisher, caller: DocumentWriter, body: BatchOfDocuments) -> BatchOutcomes:
    """Publish the event of each document; a document that is refused does not affect the others.

    Without `action`, or with `put`, an entry creates or replaces a document. With `replace_tags` it has only
    `document_id`, all `tag_ids` of the document, and perhaps a `revision`. With `replace_metadata` it has
    all `metadata` instead of the tags, and with `delete` neither. Entries about the same document keep their order.

    The answer is 200 whatever becomes of the documents: read `outcomes`. After a failure send those that were refused
    again, or all of them, each with its `revision`.
    """
    outcomes = await accept_documents(publisher, caller, body.documents)
    refused = sum(outcome.problem is not None for outcome in outcomes)
    return BatchOutcomes(accepted_count=len(outcomes) - refused, refused_count=refused, outcomes=outcomes)


@router.put(
    "/documents/{document_id}",
    operation_id="documents.put",
    summary="Create or replace a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses("event-too-large", "no-greater-revision", "quota-exceeded", "reserved-id", "unknown-text-ref"),
)
async def put(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: NewDocumentId, body: PutDocument
) -> AcceptedChange:
    """Publish `document.ocr_completed.v1` with the text of a new or an existing document."""
    return await _publish(publisher, to_ocr_completed(caller, document_id, body=body), revision=body.revision)


@router.patch(
    "/documents/{document_id}/tags",
    operation_id="documents.replace_tags",
    summary="Replace the tags of a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses("event-too-large", "no-greater-revision", "quota-exceeded", "reserved-id"),
)
async def patch_tags(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: DocumentId, body: PatchTags
) -> AcceptedChange:
    """Publish `document.tags_changed.v1` with all tags of the document."""
    return await _publish(publisher, to_tags_changed(caller, document_id, body=body), revision=body.revision)


@router.patch(
    "/documents/{document_id}/metadata",
    operation_id="documents.replace_metadata",
    summary="Replace the metadata of a document",
    status_code=202,
    response_model=AcceptedChange,
    responses=responses("event-too-large", "no-greater-revision", "reserved-id"),
)
async def patch_metadata(
    publisher: DocumentEventPublisher, caller: DocumentWriter, document_id: DocumentId, body: PatchMetadata
) -> AcceptedChange:
    """Publish `document.metadata_changed.v1` with all metadata of the document."""
    return await _publish(publisher, to_metadata_changed(caller, document_id, body=body), revision=body.revision)


@router.delete(
    "/documents/{document_id}",
    operation_id="documents.delete",
    summary="Delete a document",
    dependencies=[Depends(_without_body)],
    status_code=202,
    response_model=AcceptedChange,
    responses=responses("event-too-large", "no-greater-revision", "reserved-id"),
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
    return AcceptedChange(
        document_id=event.document_id,
        revision=published.revision,
        changed=published.effect.changes,
        outdated=list(published.effect.outdated),
        warnings=list(published.warnings),
    )


@router.put(
    "/documents/{document_id}/text",
    operation_id="documents.store_text",
    summary="Store a long text",
    response_model=StoredTextView,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"text/plain": {"schema": {"type": "string"}, "example": "Employees have 30 days of leave."}},
        },
    },
    responses=responses("quota-exceeded", "reserved-id"),
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
    require_own_document_id(document_id)
    text_ref = await store_text(
        database,
        request,
        organization_id=caller.organization_id,
        document_id=document_id,
        stored_bytes=stored_bytes,
        max_bytes=settings.max_text_bytes,
    )
    return StoredTextView(text_ref=text_ref)


def _view(overview: DocumentOverview) -> DocumentView:
    document = overview.document
    return DocumentView(
        **document_state(document).model_dump(),
        document_id=document.document_id,
        upload_date=document.text.upload_date if document.text else None,
        content_type=document.text.content_type if document.text else None,
        source_digest=document.text.source_digest if document.text else None,
        metadata={key: _as_given(value) for key, value in document.metadata_values.items()},
        accepted_revision=overview.accepted_revision,
        unsendable_messages=[message_view(message) for message in overview.unsendable],
        knowledge_bases=[_membership_view(kb, listed) for kb, listed in overview.knowledge_bases],
    )


def _as_given(value: Any) -> Any:
    return {"$date": value.isoformat().replace("+00:00", "Z")} if isinstance(value, datetime) else value


def _membership_view(kb: KnowledgeBase, listed: ListedDocument | None) -> MembershipView:
    if listed is None:
        return MembershipView(
            kb_id=kb.kb_id,
            name=kb.name,
            status="not_in_knowledge_base",
            chunk_count=0,
            indexed_at=None,
            attempts=0,
            error=None,
            next_attempt_at=None,
        )
    return MembershipView(
        kb_id=kb.kb_id,
        name=kb.name,
        status=listed.status,
        chunk_count=listed.chunk_count,
        embedding=listed.embedding,
        indexed_at=listed.indexed_at,
        attempts=listed.attempts,
        error=document_error(listed.error_type, listed.error_message),
        next_attempt_at=listed.next_attempt_at,
    )
