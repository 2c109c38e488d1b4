"""Request bodies for documents, and the events made from them."""

from typing import Annotated

from pydantic import ConfigDict, Field, ValidationError

from kb_contracts.documents import (
    DocumentDeleted,
    Metadata,
    MetadataChanged,
    OcrCompleted,
    Page,
    Revision,
    TagIds,
    TagsChanged,
    Text,
)
from kb_shared.http.authentication import Caller
from kb_shared.http.model import StrictModel, Timestamp
from kb_shared.http.problems import invalid_fields

_UNKNOWN = 0
"""Placeholder of a revision that is not assigned yet."""


class DocumentRequestChange(StrictModel):
    revision: Revision | None = Field(
        default=None,
        description="Revision of the change: any integer that rises with each change of the document. Default: the "
        "last known one plus 1.",
    )


class PageOfText(Page):
    """Position of a page in the text: characters `start` (included) to `end` (excluded)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PutDocument(DocumentRequestChange):
    """The text of a document, or the reference of a stored text, with its tags and metadata."""

    document_name: Annotated[Text, Field(min_length=1, max_length=1024)] = Field(
        description="Name of the document, for example its file name."
    )
    tag_ids: TagIds = Field(description="All tags of the document.")
    upload_date: Timestamp = Field(description="Time at which the document was uploaded.")
    text: Text | None = Field(
        default=None, description="Whole text of the document, plain or Markdown. Send either this or `text_ref`."
    )
    text_ref: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="Reference from `PUT /documents/{document_id}/text`, instead of `text`."
    )
    metadata: Metadata | None = Field(
        default=None, description="All metadata of the document. If it is absent, the metadata do not change."
    )
    pages: list[PageOfText] = Field(
        default=[], max_length=20_000, description="Positions of the pages in the text, in order."
    )
    content_type: Annotated[str, Field(max_length=128)] | None = Field(
        default=None, description="Media type of the original file."
    )

    def to_event(self, caller: Caller, document_id: str) -> OcrCompleted:
        """Create the event. Raises RequestError 422 for fields that contradict each other."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "revision"}
        try:
            return OcrCompleted(
                organization_id=caller.organization_id,
                document_id=document_id,
                revision=_revision(self),
                **fields,
            )
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            raise invalid_fields(
                [{"field": ".".join(map(str, each["loc"])) or "text", "message": each["msg"]} for each in found]
            ) from None


class PatchTags(DocumentRequestChange):
    tag_ids: TagIds = Field(description="All tags that the document has from now on.")

    def to_event(self, caller: Caller, document_id: str) -> TagsChanged:
        return TagsChanged(
            organization_id=caller.organization_id,
            document_id=document_id,
            revision=_revision(self),
            tag_ids=self.tag_ids,
        )


class PatchMetadata(DocumentRequestChange):
    metadata: Metadata = Field(description="All metadata that the document has from now on.")

    def to_event(self, caller: Caller, document_id: str) -> MetadataChanged:
        return MetadataChanged(
            organization_id=caller.organization_id,
            document_id=document_id,
            revision=_revision(self),
            metadata=self.metadata,
        )


def to_deletion(caller: Caller, document_id: str, *, revision: int | None) -> DocumentDeleted:
    return DocumentDeleted(
        organization_id=caller.organization_id,
        document_id=document_id,
        revision=_UNKNOWN if revision is None else revision,
    )


def _revision(change: DocumentRequestChange) -> int:
    return _UNKNOWN if change.revision is None else change.revision
