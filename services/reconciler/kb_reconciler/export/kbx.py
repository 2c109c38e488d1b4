"""Defines the file format `.kbx`: the members of the zip, and the models of their lines.

docs/reference/kbx.md describes it for other programs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kb_contracts.api.knowledge_bases import TextAnalyzer
from kb_contracts.cloudevents import Moment
from kb_contracts.documents import EmbeddingText, Page, ReadingWarnings, Revision, TagIds, Text, fault_of_length
from kb_contracts.identifiers import Identifier
from kb_contracts.metadata import Metadata, MetadataWarnings
from kb_contracts.reasons.field_reasons import wrong_field
from kb_contracts.text_rules import storable

FORMAT: Final = "kbx"
SCHEMA_VERSION: Final = 3
"""Newest version. A file without a field that came with it has the version before, which older programs read."""
WRITTEN_BY: Final = "knowledge-bases 0.1.0"

MANIFEST: Final = "manifest.json"
CONFIGURATION: Final = "knowledge_base.json"
TAGS: Final = "tags.jsonl"
DOCUMENTS: Final = "documents.jsonl"
TEXTS: Final = "texts.jsonl"
VECTORS: Final = "vectors.jsonl"
FLOATS: Final = "vectors.f32"

FileContents = Literal["full", "without-vectors", "config-only"]
MEMBERS: Final[Mapping[FileContents, tuple[str, ...]]] = {
    "full": (CONFIGURATION, TAGS, DOCUMENTS, TEXTS, VECTORS, FLOATS),
    "without-vectors": (CONFIGURATION, TAGS, DOCUMENTS, TEXTS),
    "config-only": (CONFIGURATION, TAGS),
}
"""Members of a file beside the manifest."""

BYTES_PER_NUMBER: Final = 4

# As in kb-api's requests; a test compares them.
MIN_OWN_TOKENS: Final = 16
FileChunker = Literal["recursive", "sentence", "token", "word", "semantic", "sdpm", "late"]
EMBEDS_SENTENCES: Final = frozenset({"semantic", "sdpm"})
"""Chunkers that also embed sentences, to find where chunks end. A file has no vectors of sentences."""

RowCount = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
EmbeddingModelName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Dimensions = Annotated[int, Field(ge=1, le=8_192)]
VisibleName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
]
MetadataFilterKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
PerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]


class UnreadableFile(Exception):
    """File that can't be imported. `str()` is one sentence that names the member and, of a line, its number."""


class FileModel(BaseModel):
    """Part of a file. Unknown fields are errors: a later version of the format has another number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MemberFacts(FileModel):
    """Size and checksum of an unpacked member."""

    bytes: RowCount
    sha256: Sha256


class ExportedFrom(FileModel):
    """KB that was exported."""

    organization_id: Identifier
    kb_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]


class FileCounts(FileModel):
    tags: RowCount
    documents: RowCount = 0
    documents_changed: RowCount = 0
    """Number of documents that were changed and not indexed again yet."""
    documents_left_out: RowCount = 0
    """Number of indexed documents that were about to leave the KB, and are not in the file."""
    chunks: RowCount = 0
    distinct_chunks: RowCount = 0
    """Number of chunks with different embedded texts: what embedding them all again costs, in SPUs."""
    vectors: RowCount = 0


class KbxManifest(FileModel):
    """Description of the file, in `manifest.json`."""

    format: Literal["kbx"]
    schema_version: Literal[1, 2, 3]
    written_by: Annotated[str, StringConstraints(max_length=200)]
    export_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]
    exported_at: Moment
    contents: FileContents
    source: ExportedFrom
    embedding_model: EmbeddingModelName
    embedding_dimensions: Dimensions
    text_normalization: Literal[1, 2, 3]
    counts: FileCounts
    members: dict[Annotated[str, StringConstraints(max_length=64)], MemberFacts] = Field(max_length=16)


class RateLimitsOfFile(FileModel):
    requests_per_minute: PerMinute | None = None
    tokens_per_minute: PerMinute | None = None


class FileConfiguration(FileModel):
    """FileConfiguration of the KB, in `knowledge_base.json`."""

    name: VisibleName
    description: Annotated[str, Field(max_length=2_000), AfterValidator(storable)]
    tag_ids: Annotated[list[Identifier], Field(max_length=100)]
    chunker_type: FileChunker
    chunk_size: Annotated[int, Field(ge=50, le=2_000)]
    chunk_overlap: Annotated[int, Field(ge=0, le=1_999)]
    embedding_model: EmbeddingModelName
    embedding_dimensions: Dimensions
    max_chunks_per_document: Annotated[int, Field(ge=1, le=1_000_000)]
    coalesce_neighbors: Annotated[int, Field(ge=0, le=5)]
    min_score: Annotated[float, Field(ge=0, le=1)] | None
    text_analyzer: TextAnalyzer
    text_normalization: Literal[1, 2, 3]
    filterable_metadata: Annotated[list[MetadataFilterKey], Field(max_length=20)]
    refuse_sensitive: bool = False
    rate_limits: RateLimitsOfFile

    @model_validator(mode="after")
    def _room_beside_the_overlap(self) -> "FileConfiguration":
        if self.chunk_size - self.chunk_overlap < MIN_OWN_TOKENS:
            raise wrong_field("chunk_overlap", message=f"must leave {MIN_OWN_TOKENS} tokens of chunk_size")
        return self


class TagLine(FileModel):
    tag_id: Identifier
    name: Annotated[str, Field(max_length=200), AfterValidator(storable)] | None


class DocumentLine(FileModel):
    """Line of `documents.jsonl`; the lines are in the order of `document_id`."""

    document_id: Identifier
    document_name: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(storable)]
    upload_date: Moment
    content_type: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None
    source_digest: Annotated[str, Field(max_length=128), AfterValidator(storable)] | None = None
    """Absent in files of version 1."""
    tag_ids: TagIds
    metadata: Metadata | None
    text_revision: Revision
    tags_revision: Revision
    metadata_revision: Revision | None
    reading_warnings: ReadingWarnings | None = None
    metadata_warnings: MetadataWarnings | None = None
    """Both are absent unless something was left out, and in files before version 3."""

    @model_validator(mode="after")
    def _metadata_has_a_revision(self) -> "DocumentLine":
        if (self.metadata is None) != (self.metadata_revision is None):
            raise wrong_field("metadata_revision", message="must be null if metadata is, and only then")
        return self


class TextLine(FileModel):
    """Line of `texts.jsonl`: the text of the document in the same line of `documents.jsonl`."""

    document_id: Identifier
    text: Text
    pages: Annotated[list[Page], Field(max_length=20_000)]
    embedding_text: EmbeddingText | None = None
    """Absent unless another text than `text` is embedded, and in files before version 3."""

    @model_validator(mode="after")
    def _fits_into_one_chunk(self) -> "TextLine":
        if fault := fault_of_length(self.text, embedding_text=self.embedding_text):
            raise wrong_field("text", message=fault)
        return self


class VectorLine(FileModel):
    """Line of `vectors.jsonl`: of which text the vector in the same row of `vectors.f32` is, and who computed it."""

    chunk_hash: Sha256
    provider_fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


def write_metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write metadata as events have it, with a date as `{"$date": "2026-01-31T00:00:00Z"}`."""
    return {
        key: {"$date": value.isoformat()} if isinstance(value, datetime) else value for key, value in values.items()
    }


def now() -> datetime:
    """Return the time in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


CHUNKERS: Final[tuple[str, ...]] = get_args(FileChunker)
