"""Documents of an organization: changes over HTTP, and what is known of a document."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, model_validator

from kb_contracts.api.batches import DescribedAs
from kb_contracts.api.memberships import (
    EMBEDDING,
    LEFT_OUT,
    DocumentError,
    DocumentState,
    DocumentStatus,
    EmbeddingProgress,
)
from kb_contracts.api.model import StrictModel, example, in_utc
from kb_contracts.api.unsendable_messages import UnsendableMessageView
from kb_contracts.cloudevents import Moment
from kb_contracts.documents import EmbeddingText, NullAsEmpty, Page, ReadingWarning, Revision, TagIds, Text
from kb_contracts.metadata import MAX_WARNINGS, Metadata, MetadataWarning
from kb_contracts.nul_characters import without_nul_characters
from kb_contracts.outcomes import OutdatedFacet
from kb_contracts.text_rules import storable

_UNLESS_STRICT: Final = ", unless `strict_metadata` in `GET /settings` is on: then they are an error."


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

    model_config = example(
        {
            "document_name": "handbook.pdf",
            "tag_ids": ["hr"],
            "upload_date": "2026-01-31T12:00:00Z",
            "text": "# Leave\n\nEmployees have 30 days of leave a year.",
            "metadata": {"year": 2026},
        }
    )

    document_name: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(storable)] = Field(
        description="Name of the document, for example its file name."
    )
    tag_ids: TagIds = Field(description="All tags of the document.")
    upload_date: Annotated[Moment, Strict(strict=False), AfterValidator(in_utc)] = Field(
        default_factory=lambda: datetime.now(UTC),
        description="Time at which the document was uploaded. Default: now. Give one if you repeat requests with the "
        "same `revision`.",
    )
    text: Text | None = Field(
        default=None,
        description="Whole text of the document, plain or Markdown. NUL characters are left out, with a warning on the "
        "document. Send either this or `text_ref`.",
    )
    text_ref: Annotated[str, Field(max_length=512), AfterValidator(storable)] | None = Field(
        default=None, description="Reference from `PUT /documents/{document_id}/text`, instead of `text`."
    )
    metadata: Annotated[Any, DescribedAs(Metadata | None)] = Field(
        default=None,
        description="All metadata of the document. If it is absent, the metadata do not change. Values that can't be "
        f"stored are left out, with a warning in the answer{_UNLESS_STRICT}",
    )
    pages: Annotated[list[PageOfText], NullAsEmpty] = Field(
        default=[], max_length=20_000, description="Positions of the pages in the text, in order."
    )
    content_type: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None = Field(
        default=None, description="Media type of the original file."
    )
    source_digest: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None = Field(
        default=None,
        description="Any digest of the original file. `GET /documents/{document_id}` returns it, so that you can find "
        "out whether the file has changed since.",
    )
    embedding_text: EmbeddingText | None = Field(
        default=None,
        description="Text that is embedded in place of `text`. Searches find the document by words of both and show "
        "`text` only. With it, the document is one chunk, and each of the two has at most 8,000 characters.",
    )
    reading_warnings: list[ReadingWarning] | None = Field(
        default=None,
        max_length=MAX_WARNINGS,
        description="Sentences on what of the original file was left out of the text, could not be read, or was "
        "assumed. They are shown with the document.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nul_characters(cls, data: Any) -> Any:
        return without_nul_characters(data)


class PatchTags(DocumentRequestChange):
    model_config = example({"tag_ids": ["hr", "public"]})

    tag_ids: TagIds = Field(description="All tags that the document has from now on.")


class PatchMetadata(DocumentRequestChange):
    model_config = example({"metadata": {"year": 2026, "language": "en"}})

    metadata: Annotated[dict[str, Any], DescribedAs(Metadata)] = Field(
        description="All metadata that the document has from now on. Values that can't be stored are left out, with a "
        f"warning in the answer{_UNLESS_STRICT}"
    )


OutdatedFacets = Annotated[
    list[OutdatedFacet],
    Field(description="Parts of the document of which the event does not decide, each with what stays in its place."),
]


class AcceptedChange(BaseModel):
    """A change that is stored and will be published. `GET /documents/{document_id}` shows its effect."""

    model_config = example({"document_id": "handbook", "revision": 1, "changed": True, "outdated": [], "warnings": []})

    document_id: str
    revision: int = Field(description="Revision of the accepted event: the given one, or the last known one plus 1.")
    changed: bool = Field(
        description="Whether the event can change the document. False if what is not `outdated` of it was "
        "accepted before, with the same revision. It is published in any case."
    )
    outdated: OutdatedFacets = []
    warnings: list[MetadataWarning] = Field(default=[], description=LEFT_OUT)


class StoredTextView(BaseModel):
    model_config = example({"text_ref": "handbook/8c6976e5b5410415bde908bd4dee15df"})

    text_ref: str = Field(description="Reference to the text, for the field `text_ref` of an event within a day.")


class MembershipView(BaseModel):
    kb_id: str
    name: str = Field(description="Name of the knowledge base.")
    status: DocumentStatus = Field(description="State of the document in the knowledge base.")
    chunk_count: int = Field(description="Number of chunks that are searchable now.")
    embedding: EmbeddingProgress | None = Field(default=None, description=EMBEDDING)
    indexed_at: datetime | None = Field(
        description="Time at which the document was last indexed in the knowledge base; null if it is not indexed."
    )
    attempts: int = Field(description="Number of failed or running attempts of the open job.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )


class DocumentView(DocumentState):
    model_config = example(
        {
            "document_name": "handbook.pdf",
            "alive": True,
            "tag_ids": ["hr"],
            "text_revision": 1,
            "tags_revision": 1,
            "metadata_revision": 1,
            "deleted_revision": None,
            "warnings": [],
            "document_id": "handbook",
            "upload_date": "2026-01-31T12:00:00Z",
            "content_type": "application/pdf",
            "source_digest": None,
            "metadata": {"year": 2026},
            "accepted_revision": 1,
            "unsendable_messages": [],
            "knowledge_bases": [
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "name": "Handbook",
                    "status": "indexed",
                    "chunk_count": 31,
                    "embedding": None,
                    "indexed_at": "2026-01-31T12:00:05Z",
                    "attempts": 0,
                    "error": None,
                    "next_attempt_at": None,
                }
            ],
        }
    )

    document_id: str
    upload_date: datetime | None
    content_type: str | None = Field(description="Media type of the original file, as given.")
    source_digest: str | None = Field(
        description="Digest of the original file, as given with its text; null if the last text came without one."
    )
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
    searchable: bool | None = Field(
        default=None,
        description="Only with `wait=searchable`: whether searches find the newest accepted text in all knowledge "
        "bases that the document belongs to. False if that took longer than `timeout_s`, if no knowledge base takes "
        "the document, or if its indexing has failed or is paused in one of them.",
    )
