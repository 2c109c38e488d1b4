"""Entries: texts that people write, import or have fetched. A piece is an entry that says what it is."""

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, Field, StringConstraints, model_validator

from kb_contracts.api.model import NextCursor, StrictModel, example, optional_change
from kb_contracts.documents import EmbeddingText, fault_of_length
from kb_contracts.knowledge.entities import EntityId
from kb_contracts.knowledge.entry_fields import (
    DEFAULT_ENTRY_TYPE,
    DEFAULT_INFO_TYPE,
    EntryContent,
    EntryId,
    EntryTags,
    EntryTitle,
    EntryType,
    InfoType,
    KnowledgeType,
)
from kb_contracts.reasons.field_reasons import wrong_field

OverrideReason: TypeAlias = Annotated[str, StringConstraints(min_length=5, max_length=500, pattern=r"\S")]
EmbeddingStatus: TypeAlias = Literal["pending", "ready", "error"]

_TITLE: Final = "Title, such as the question that the entry answers."
_CONTENT: Final = "The text itself. It is what searches find and show."
_TAGS: Final = "Tags. The entry also belongs to every knowledge base with one of them."
_TYPE: Final = "Kind of entry: by convention `note`, `rule`, `pattern`, `reference` or `decision`."
_KNOWLEDGE_TYPE: Final = "What a piece is; in any case. null: the entry is no piece."
_INFO_TYPE: Final = (
    "Where a piece goes in a prompt: `user_profile`, `instructions`, `context`, `skills` or a name of your own."
)
_EMBEDDING_TEXT: Final = (
    "Text that is embedded in place of the content, such as the questions that it answers. Searches find the entry by "
    "words of both and show the content only. With it, the entry is one chunk, and each of the two has at most 8,000 "
    "characters."
)
_OVERRIDE_REASON: Final = (
    "Why a text of this request is stored although it looks as if it contained a credential. The audit log keeps it. "
    "It is for texts that only look so, and is not stored with the entry."
)
_ENTITY_ID: Final = "Entity that the entry belongs to, such as `user:alice`; null: it applies to all."

_WRITTEN: Final = {
    "title": "Initial state of a transient LES",
    "content": "Initialize transient LES from converged RANS: that cuts spin-up by about 40 %.",
    "tags": ["les", "rans"],
    "type": "note",
    "knowledge_type": "procedure",
    "info_type": "instructions",
    "entity_id": None,
    "embedding_text": None,
}
_SUMMARY: Final = {
    "entry_id": "les-rans-init",
    "title": _WRITTEN["title"],
    "excerpt": _WRITTEN["content"],
    "character_count": 78,
    "tags": ["les", "rans"],
    "type": "note",
    "source_type": "note",
    "knowledge_type": "procedure",
    "info_type": "instructions",
    "entity_id": None,
    "embedding_status": "ready",
    "embedding_error": None,
    "source_id": None,
    "source_url": None,
    "cites_30d": 4,
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
}
_VIEW: Final = _WRITTEN | {
    "entry_id": "les-rans-init",
    "source_type": "note",
    "embedding_status": "ready",
    "embedding_error": None,
    "source_id": None,
    "source_url": None,
    "source_key": None,
    "revision": 1769860800000,
    "content_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "cites_30d": 4,
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_by": "3f9c1d2e4b5a6978",
}


class CreateEntry(StrictModel):
    model_config = example(
        {name: value for name, value in _WRITTEN.items() if value is not None} | {"entry_id": "les-rans-init"}
    )

    entry_id: EntryId | None = Field(
        default=None, description="Id of the entry, which never changes. Default: a new one."
    )
    title: EntryTitle | None = Field(default=None, description=f"{_TITLE} A piece without one has its first line.")
    content: EntryContent = Field(description=_CONTENT)
    tags: EntryTags = Field(default=[], description=_TAGS)
    type: EntryType = Field(default=DEFAULT_ENTRY_TYPE, description=_TYPE)
    knowledge_type: KnowledgeType | None = Field(default=None, description=_KNOWLEDGE_TYPE)
    info_type: InfoType | None = Field(
        default=None, description=f"{_INFO_TYPE} Default: `{DEFAULT_INFO_TYPE}` for a piece."
    )
    entity_id: EntityId | None = Field(default=None, description=_ENTITY_ID)
    embedding_text: EmbeddingText | None = Field(default=None, description=_EMBEDDING_TEXT)
    override_reason: OverrideReason | None = Field(default=None, description=_OVERRIDE_REASON)

    @model_validator(mode="after")
    def _fits_into_one_chunk(self) -> "CreateEntry":
        if fault := fault_of_length(self.content, embedding_text=self.embedding_text):
            raise wrong_field("content", message=fault)
        return self

    @model_validator(mode="after")
    def _has_title(self) -> "CreateEntry":
        if self.title is None and self.knowledge_type is None:
            raise wrong_field("title", message="is missing; only a piece, which has a knowledge_type, needs none")
        return self


class ChangeEntry(StrictModel):
    """Changes of an entry. Fields that are left out do not change."""

    model_config = example({"content": "Initialize transient LES from converged RANS, but not near stall."})

    title: EntryTitle = optional_change(_TITLE)
    content: EntryContent = optional_change(_CONTENT)
    tags: EntryTags = optional_change(_TAGS)
    type: EntryType = optional_change(_TYPE)
    knowledge_type: KnowledgeType | None = optional_change(_KNOWLEDGE_TYPE)
    info_type: InfoType | None = optional_change(f"{_INFO_TYPE} null: none.")
    entity_id: EntityId | None = optional_change(_ENTITY_ID)
    embedding_text: EmbeddingText | None = optional_change(f"{_EMBEDDING_TEXT} null: the content is embedded.")
    override_reason: OverrideReason | None = optional_change(_OVERRIDE_REASON)


class EmbeddingErrorView(BaseModel):
    """Why an entry is not searchable as it is now."""

    type: str = Field(description="Stable name of the error, such as `provider_timeout`.")
    message: str
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt, which comes by itself; null: there is none until the entry is changed "
        "or `POST .../retry` is called."
    )


class EntryView(BaseModel):
    model_config = example(_VIEW)

    entry_id: str
    title: str
    content: str = Field(description=_CONTENT)
    tags: list[str] = Field(description=_TAGS)
    type: str = Field(description=_TYPE)
    source_type: str = Field(description="Kind of the source that the entry comes from; without a source, its `type`.")
    knowledge_type: KnowledgeType | None = Field(description="What a piece is; null: the entry is no piece.")
    info_type: str | None = Field(description=_INFO_TYPE)
    entity_id: str | None = Field(description=_ENTITY_ID)
    embedding_text: str | None = Field(default=None, description=f"{_EMBEDDING_TEXT} null: the content is embedded.")
    embedding_status: EmbeddingStatus = Field(
        description="`pending` until this state of the entry is searchable, then `ready`; `error` if that failed. "
        "Until then searches find the state before."
    )
    embedding_error: EmbeddingErrorView | None
    source_id: str | None = Field(description="Source that the entry comes from; null for one that a person wrote.")
    source_url: str | None = Field(description="Address that the source found it at.")
    source_key: str | None = Field(description="Id of the item within its source.")
    revision: int = Field(description="Number that rises with each change, and is the ETag.")
    content_hash: str = Field(description="SHA-256 of the content; with an `embedding_text`, of both.")
    cites_30d: int = Field(description="Number of citations in answers of the last 30 days.")
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(description="Id of the API key that created the entry.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class EntrySummary(BaseModel):
    entry_id: str
    title: str
    excerpt: str = Field(description="Beginning of the content.")
    character_count: int = Field(description="Number of characters of the content.")
    tags: list[str]
    type: str
    source_type: str = Field(description="Kind of the source that the entry comes from; without a source, its `type`.")
    knowledge_type: KnowledgeType | None
    info_type: str | None
    entity_id: str | None
    embedding_status: EmbeddingStatus
    embedding_error: EmbeddingErrorView | None
    source_id: str | None
    source_url: str | None
    cites_30d: int = Field(description="Number of citations in answers of the last 30 days.")
    created_at: datetime
    updated_at: datetime


class EntryTotals(BaseModel):
    """Numbers of all entries that match the filters, on all pages."""

    by_status: dict[EmbeddingStatus, int] = Field(description="Number of entries with each `embedding_status`.")
    by_source_type: dict[str, int] = Field(
        description="Number of entries with each `source_type`; of the 100 most frequent ones."
    )


class EntryPage(BaseModel):
    model_config = example(
        {
            "entries": [_SUMMARY],
            "total_count": 1,
            "totals": {"by_status": {"pending": 0, "ready": 1, "error": 0}, "by_source_type": {"note": 1}},
            "has_more": False,
            "next_cursor": None,
        }
    )

    entries: list[EntrySummary]
    total_count: int = Field(description="Number of items on all pages.")
    totals: EntryTotals
    has_more: bool = Field(description="Whether there is a further page.")
    next_cursor: NextCursor


class EntryChunkView(BaseModel):
    """A passage of an entry, as it is indexed."""

    chunk_id: str
    chunk_index: int = Field(description="Position among the chunks of the entry, from 0.")
    text: str
    character_count: int
    start: int = Field(description="Position of the first character in the content.")
    end: int = Field(description="Position after the last character.")
    embedding_provider: str = Field(
        description="Provider and model of the vector, such as `openai/text-embedding-3-small`."
    )
    indexed_at: datetime


class EntryChunkList(BaseModel):
    model_config = example(
        {
            "entry_id": "les-rans-init",
            "chunks": [
                {
                    "chunk_id": "entry-les-rans-init:0123456789abcdef01234567:0",
                    "chunk_index": 0,
                    "text": _WRITTEN["content"],
                    "character_count": 78,
                    "start": 0,
                    "end": 78,
                    "embedding_provider": "openai/text-embedding-3-small",
                    "indexed_at": "2026-01-31T12:00:00Z",
                }
            ],
            "total_count": 1,
        }
    )

    entry_id: str
    chunks: list[EntryChunkView]
    total_count: int = Field(description="Number of items on all pages.")
