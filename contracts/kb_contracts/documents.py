"""Facts about documents and tags, published by upstream services on `document-events`."""

from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from kb_contracts.cloudevents import RECEIVED, Moment, Payload
from kb_contracts.identifiers import Identifier
from kb_contracts.metadata import (
    MAX_WARNINGS,
    Metadata,
    MetadataWarnings,
    readable_warnings,
    storable_metadata,
    within_64_bits,
)
from kb_contracts.nul_characters import without_nul_characters
from kb_contracts.reasons.field_reasons import wrong_field
from kb_contracts.text_rules import storable, visible

MAX_TAGS: Final = 1_000
MAX_CHARACTERS_WITH_EMBEDDING_TEXT: Final = 8_000
"""Limit of a text and of its embedding text, if there is one: both are in one chunk."""


def fault_of_length(text: str, *, embedding_text: str | None) -> str | None:
    """Say why a text does not fit into one chunk with its embedding text; None if it does, or if there is none."""
    if embedding_text is None or len(text) <= MAX_CHARACTERS_WITH_EMBEDDING_TEXT:
        return None
    return (
        f"must have at most {MAX_CHARACTERS_WITH_EMBEDDING_TEXT:,} characters with an embedding_text, not "
        f"{len(text):,}: shorten it or leave embedding_text out"
    )


def fault_of_last_page(end: int, *, text: str) -> str | None:
    """Say why the last page can't end at `end`; None if it can."""
    return f"must be within the text, which has {len(text):,} characters, not {end:,}" if end > len(text) else None


Text = Annotated[str, AfterValidator(storable)]
EmbeddingText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_CHARACTERS_WITH_EMBEDDING_TEXT),
    AfterValidator(storable),
    AfterValidator(visible),
]
"""Text that is embedded in place of the one that readers see."""
Revision = Annotated[StrictInt, AfterValidator(within_64_bits)]
"""Revision: any integer that rises with each change of the document; milliseconds will do."""
TagIds = Annotated[list[Identifier], Field(max_length=MAX_TAGS)]


ReadingWarning = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(storable)]
"""Sentence on what of a file was left out of its text, could not be read, or was assumed."""
ReadingWarnings = Annotated[tuple[ReadingWarning, ...], Field(max_length=MAX_WARNINGS)]


class Page(BaseModel):
    """Position of a page in the text: characters `start` (included) to `end` (excluded)."""

    model_config = ConfigDict(frozen=True)

    page: StrictInt = Field(ge=0, lt=2**31)
    start: StrictInt = Field(ge=0, lt=2**31)
    end: StrictInt = Field(ge=0, lt=2**31)


NullAsEmpty: Final = BeforeValidator(lambda given: [] if given is None else given)
"""Takes null for a list without items: serializers of objects write it for an optional field that is not set."""


class DocumentEvent(Payload):
    organization_id: Identifier
    document_id: Identifier
    revision: Revision


class DescribedEvent(DocumentEvent):
    """An event with metadata. What can't be stored of them is an error; out of a received event it is left."""

    metadata_warnings: MetadataWarnings | None = None
    """Values that the sender left out of `metadata` because they can't be stored, as kb-api does. They are shown with
    the document."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_not_storable(cls, data: Any, info: ValidationInfo) -> Any:
        if info.context is not RECEIVED or not isinstance(data, dict) or data.get("metadata") is None:
            return data
        if not isinstance(data["metadata"], dict) and cls.model_fields["metadata"].is_required():
            # The event is about nothing else.
            return data
        stored, warnings = storable_metadata(data["metadata"])
        warnings = (*warnings, *readable_warnings(data.get("metadata_warnings")))[:MAX_WARNINGS]
        return {**data, "metadata": stored, "metadata_warnings": warnings or None}


class OcrCompleted(DescribedEvent):
    """The text of a document is there, for the first time or again. Only this event creates a document."""

    TYPE: ClassVar[str] = "document.ocr_completed.v1"

    document_name: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(storable)]
    tag_ids: TagIds
    upload_date: Moment
    text: Text | None = None
    text_ref: Annotated[str, Field(max_length=512), AfterValidator(storable)] | None = None
    """Reference of a text stored earlier through kb-api for the same organization and document."""
    metadata: Metadata | None = None
    """Field that is left as it was if it is absent. Values that can't be stored are left out, with a warning, unless
    the organization refuses such events."""
    pages: Annotated[list[Page], NullAsEmpty] = Field(default_factory=list, max_length=20_000)
    content_type: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None = None
    source_digest: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None = None
    """Digest of the file of the text. The sender chooses it, and can see by it later whether the file has changed."""
    embedding_text: EmbeddingText | None = None
    """Text that is embedded in place of the text, which is then one chunk. Searches show the text."""
    reading_warnings: ReadingWarnings | None = None
    """Sentences of the program that made the text of a file, on what it left out or assumed. They are shown with the
    document."""

    @model_validator(mode="before")
    @classmethod
    def _without_nul_characters(cls, data: Any) -> Any:
        return without_nul_characters(data)

    @model_validator(mode="after")
    def _one_text(self) -> "OcrCompleted":
        if (self.text is None) == (self.text_ref is None):
            given = "neither is" if self.text is None else "both are"
            raise wrong_field("text", message=f"exactly one of text and text_ref must be given; {given} given")
        return self

    @model_validator(mode="after")
    def _fits_into_one_chunk(self) -> "OcrCompleted":
        if fault := fault_of_length(self.text or "", embedding_text=self.embedding_text):
            raise wrong_field("text", message=fault)
        return self

    @model_validator(mode="after")
    def _pages_in_order(self) -> "OcrCompleted":
        end = 0
        for number, page in enumerate(self.pages):
            if page.start < end:
                fault = f"must not be less than the end of the page before, {end}, not {page.start}"
                raise wrong_field("pages", number, "start", message=fault)
            if page.end < page.start:
                fault = f"must not be less than the start of the page, {page.start}, not {page.end}"
                raise wrong_field("pages", number, "end", message=fault)
            end = page.end
        beyond = None if self.text is None else fault_of_last_page(end, text=self.text)
        if beyond is not None:
            raise wrong_field("pages", len(self.pages) - 1, "end", message=beyond)
        return self


class TagsChanged(DocumentEvent):
    TYPE: ClassVar[str] = "document.tags_changed.v1"

    tag_ids: TagIds
    """All tags the document has now."""


class MetadataChanged(DescribedEvent):
    TYPE: ClassVar[str] = "document.metadata_changed.v1"

    metadata: Metadata
    """All metadata the document has now. What can't be stored is left out as in `document.ocr_completed.v1`."""


class DocumentDeleted(DocumentEvent):
    TYPE: ClassVar[str] = "document.deleted.v1"


class TagUpserted(Payload):
    TYPE: ClassVar[str] = "tag.upserted.v1"

    organization_id: Identifier
    tag_id: Identifier
    revision: Revision | None = None
    """The time of the event in milliseconds when absent."""
    name: Annotated[str, Field(max_length=200), AfterValidator(storable)] | None = None


class TagDeleted(Payload):
    TYPE: ClassVar[str] = "tag.deleted.v1"

    organization_id: Identifier
    tag_id: Identifier
    revision: Revision | None = None
    """The time of the event in milliseconds when absent."""


ABOUT_DOCUMENTS: Final[dict[str, type[DocumentEvent]]] = {
    model.TYPE: model for model in (OcrCompleted, TagsChanged, MetadataChanged, DocumentDeleted)
}
ABOUT_TAGS: Final[dict[str, type[Payload]]] = {model.TYPE: model for model in (TagUpserted, TagDeleted)}
DOCUMENT_EVENTS: Final[dict[str, type[Payload]]] = {**ABOUT_DOCUMENTS, **ABOUT_TAGS}


def key_of(event: Payload) -> bytes:
    """Return the Kafka key, which keeps what concerns one document or tag in one partition."""
    match event:
        case DocumentEvent():
            return f"{event.organization_id}/{event.document_id}".encode()
        case TagUpserted() | TagDeleted():
            return f"{event.organization_id}/tag/{event.tag_id}".encode()
    raise TypeError(f"{type(event).__name__} is not a document event")
