"""Previews of knowledge bases, before they are created or changed."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kb_contracts.api.knowledge_bases import ChunkerName, KnowledgeBaseTagIds, MaxChunks, TextAnalyzer
from kb_contracts.api.model import ObjectId, StrictModel, example
from kb_contracts.identifiers import Identifier
from kb_contracts.reasons.field_reasons import wrong_field

MAX_PREVIEW_CHARACTERS = 200_000

PreviewText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PREVIEW_CHARACTERS)]


class PreviewKnowledgeBase(StrictModel):
    """Settings to try, and what to try them on: `tag_ids`, `text` or `document_id`, or the documents of `kb_id`.

    Settings that are left out are those of `kb_id`, or else those that `POST /knowledge-bases` would take.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"tag_ids": ["handbook"], "chunk_size": 400},
                {"text": "# Leave\n\nEverybody has 30 days of leave.", "chunker_type": "sentence"},
                {"kb_id": "665f1c2e9b1e8a3d4c5b6a79", "tag_ids": ["handbook", "policy"]},
            ]
        }
    )

    kb_id: ObjectId | None = Field(
        default=None,
        description="Existing knowledge base whose settings to use. With `tag_ids`: what the change to these tags "
        "would bring. Without: what it would cost to index all its documents again.",
    )
    tag_ids: KnowledgeBaseTagIds | None = Field(
        default=None, description="Tags: every document with one of them would belong to the knowledge base."
    )
    text: PreviewText | None = Field(default=None, description="A text whose chunks to show.")
    document_id: Identifier | None = Field(
        default=None, description="A stored document whose chunks to show: those of its first 1,000,000 characters."
    )
    chunker_type: ChunkerName | None = Field(default=None, description="Algorithm that splits texts into chunks.")
    chunk_size: Annotated[int, Field(ge=50, le=2_000)] | None = Field(
        default=None, description="Greatest number of tokens of a chunk."
    )
    chunk_overlap: Annotated[int, Field(ge=0, le=1_999)] | None = Field(
        default=None, description="Tokens of the previous chunk to repeat (overlap); less than `chunk_size`."
    )
    embedding_model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="Name of a model of `GET /embedding-models`."
    )
    max_chunks_per_document: MaxChunks | None = Field(
        default=None, description="Greatest number of chunks of a document. 0: the limit of the deployment."
    )
    skip: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0, description="Number of chunks of the text or document to skip."
    )
    limit: Annotated[int, Field(ge=1, le=500)] = Field(
        default=100, description="Number of chunks of the text or document to show."
    )

    @model_validator(mode="after")
    def _about_something(self) -> "PreviewKnowledgeBase":
        if self.text is not None and self.document_id is not None:
            raise wrong_field("document_id", message="must be left out with a text")
        if self.kb_id is None and self.tag_ids is None and self.text is None and self.document_id is None:
            raise wrong_field("tag_ids", message="is missing; or give text, document_id or kb_id")
        if self.kb_id is not None and self.fixed_settings():
            raise wrong_field(
                self.fixed_settings()[0], message="can't change in an existing knowledge base: leave it out"
            )
        return self

    def fixed_settings(self) -> list[str]:
        """Return the names of the settings in this request that an existing knowledge base can't change."""
        names = ("chunker_type", "chunk_size", "chunk_overlap", "embedding_model")
        return [name for name in names if getattr(self, name) is not None]


class PreviewedSettings(BaseModel):
    """Settings that the preview is of."""

    chunker_type: str
    chunk_size: int = Field(description="Greatest number of tokens of a chunk.")
    chunk_overlap: int = Field(description="Number of tokens of the previous chunk that a chunk repeats.")
    embedding_model: str
    max_chunks_per_document: int = Field(description="Greatest number of chunks of a document.")


class PreviewedCost(BaseModel):
    """Cost of what would be embedded. Nothing of it is charged by the preview."""

    embedding_count: int = Field(description="Number of different texts whose vectors are needed.")
    cached_count: int = Field(description="Number of these vectors that were paid for before: they cost nothing.")
    spus: int = Field(description="SPUs that would be charged.")
    usd: float | None = Field(
        description="Cost in US dollars by the prices of this deployment; null if the price of the model is not known."
    )


class SampleError(BaseModel):
    """Half the width of the 95 % confidence interval of a number that was estimated from a sample."""

    chunk_count: int
    spus: int


class PreviewedDocuments(PreviewedCost):
    """Documents that have the tags, and what the knowledge base would do with them."""

    document_count: int = Field(description="Number of documents that would be indexed.")
    chunk_count: int = Field(description="Number of chunks that would be searchable.")
    too_large_count: int = Field(
        description="Number of further documents that would fail because they have too many chunks."
    )
    waiting_count: int = Field(description="Number of further documents that wait for their text.")
    removed_document_count: int = Field(
        description="Number of documents that a change of `tag_ids` would remove from the knowledge base."
    )
    duration_s: float = Field(
        description="Rough estimate of the seconds until all documents are searchable, from the limits of the "
        "provider and the speed of the last seven days."
    )
    is_exact: bool = Field(description="Whether all numbers but `duration_s` are counted; false: some are estimated.")
    estimate_reason: Literal["sample", "long_text", "groups_by_meaning"] | None = Field(
        description="Why numbers are estimated: only a `sample` of the documents was chunked, because they are many "
        "or long, of a `long_text` only the beginning was, or the chunker `groups_by_meaning`, which has to embed "
        "the sentences first: then `spus` and `usd` are the most, and `chunk_count` is the least. null if exact."
    )
    sampled_document_count: int = Field(description="Number of documents that were chunked for this preview.")
    sample_error: SampleError | None = Field(description="Error of numbers that come from a sample; else null.")


class PreviewedChunkView(BaseModel):
    chunk_index: int = Field(description="Position of the chunk in its text, from 0.")
    content: str = Field(description="Text of the chunk.")
    start: int = Field(description="Position of the first character of the chunk in the text.")
    end: int = Field(description="Position after the last character of the chunk in the text.")
    token_count: int = Field(description="Number of tokens of the content.")
    context: str = Field(description="Text before the content that is embedded with it: the overlap.")
    heading_path: list[str] = Field(description="Headings above the chunk, outermost first.")
    page_start: int | None = Field(description="First page of the chunk; null if the text has no pages.")
    page_end: int | None = Field(description="Last page of the chunk; null if the text has no pages.")
    chunk_type: str = Field(description="Kind of content, such as text or a table.")


class PreviewedText(PreviewedCost):
    """Chunks of the text or document."""

    chunks: list[PreviewedChunkView]
    chunk_count: int = Field(description="Number of all chunks, of which `chunks` shows a part.")
    min_tokens: int = Field(description="Number of tokens of the smallest chunk; 0 without chunks.")
    mean_tokens: float = Field(description="Mean number of tokens of a chunk; 0 without chunks.")
    max_tokens: int = Field(description="Number of tokens of the largest chunk; 0 without chunks.")
    is_exact: bool = Field(
        description="Whether these are the chunks that would be indexed. False for a chunker that groups by meaning, "
        "which has to embed the sentences first: shown are then the chunks of `sentence`, and `spus` are the most."
    )
    is_truncated: bool = Field(description="Whether the document is longer than the part that was chunked.")


class DetectedLanguage(BaseModel):
    """Language of the texts."""

    language: str | None = Field(description="ISO 639-1 code; null if no language is clearly the most frequent.")
    share: float = Field(description="Share of the texts with a known language that are in `language`, from 0 to 1.")
    sampled_document_count: int = Field(description="Number of documents or texts whose language was known.")


class KnowledgeBasePreview(BaseModel):
    model_config = example(
        {
            "settings": {
                "chunker_type": "recursive",
                "chunk_size": 512,
                "chunk_overlap": 128,
                "embedding_model": "text-embedding-3-small",
                "max_chunks_per_document": 2000,
            },
            "documents": {
                "embedding_count": 1250,
                "cached_count": 0,
                "spus": 1250,
                "usd": 0.0131,
                "document_count": 42,
                "chunk_count": 1250,
                "too_large_count": 0,
                "waiting_count": 1,
                "removed_document_count": 0,
                "duration_s": 35.0,
                "is_exact": True,
                "estimate_reason": None,
                "sampled_document_count": 42,
                "sample_error": None,
            },
            "text": None,
            "language": {"language": "en", "share": 0.98, "sampled_document_count": 42},
            "suggested_text_analyzer": "lucene.english",
            "warnings": [],
        }
    )

    settings: PreviewedSettings
    documents: PreviewedDocuments | None = Field(
        description="Documents with the tags; null if neither `tag_ids` nor `kb_id` was given."
    )
    text: PreviewedText | None = Field(
        description="Chunks of the text or document; null if neither `text` nor `document_id` was given."
    )
    language: DetectedLanguage
    suggested_text_analyzer: TextAnalyzer = Field(
        description="Value for `text_analyzer` that fits: the analyzer of the language, or `lucene.standard` without a "
        "language or an analyzer for it."
    )
    warnings: list[str] = Field(description="What to know before creating the knowledge base.")
