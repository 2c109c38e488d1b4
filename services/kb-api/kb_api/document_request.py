"""Creates the events of documents from request bodies, without metadata that can't be stored."""

from pydantic import ValidationError

from kb_contracts.api.documents import DocumentRequestChange, PatchMetadata, PatchTags, PutDocument
from kb_contracts.cloudevents import RECEIVED
from kb_contracts.documents import DocumentDeleted, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.reasons.field_reasons import reasons
from kb_shared.http.authentication import Caller
from kb_shared.http.problems import invalid

_UNKNOWN = 0
"""Placeholder of a revision that is not assigned yet."""


def to_ocr_completed(caller: Caller, document_id: str, *, body: PutDocument) -> OcrCompleted:
    """Create the event. Raises RequestError 422 for fields that contradict each other."""
    fields = {name: getattr(body, name) for name in PutDocument.model_fields if name != "revision"}
    try:
        return OcrCompleted.model_validate(
            {
                "organization_id": caller.organization_id,
                "document_id": document_id,
                "revision": _revision(body),
                **fields,
            },
            context=RECEIVED,
        )
    except ValidationError as error:
        raise invalid(reasons(error, OcrCompleted)) from None


def to_tags_changed(caller: Caller, document_id: str, *, body: PatchTags) -> TagsChanged:
    return TagsChanged(
        organization_id=caller.organization_id,
        document_id=document_id,
        revision=_revision(body),
        tag_ids=body.tag_ids,
    )


def to_metadata_changed(caller: Caller, document_id: str, *, body: PatchMetadata) -> MetadataChanged:
    return MetadataChanged.model_validate(
        {
            "organization_id": caller.organization_id,
            "document_id": document_id,
            "revision": _revision(body),
            "metadata": body.metadata,
        },
        context=RECEIVED,
    )


def to_deletion(caller: Caller, document_id: str, *, revision: int | None) -> DocumentDeleted:
    return DocumentDeleted(
        organization_id=caller.organization_id,
        document_id=document_id,
        revision=_UNKNOWN if revision is None else revision,
    )


def _revision(change: DocumentRequestChange) -> int:
    return _UNKNOWN if change.revision is None else change.revision
