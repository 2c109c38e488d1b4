"""Pieces: entries that state their kind of knowledge and their place in a prompt."""

from hashlib import sha256
from typing import Any

from pydantic import Field, model_validator

from kb_contracts.api.model import StrictModel
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


def derived_piece_id(*, content: str, entity_id: str | None) -> str:
    """Return the identifier of a piece without one: the same whenever the same content is imported."""
    return sha256(f"{entity_id or ''}\n{content}".encode()).hexdigest()[:24]


def _derived_from(validated: dict[str, Any]) -> str:
    return derived_piece_id(content=validated["content"], entity_id=validated["entity_id"])


class KnowledgePiece(StrictModel):
    """A piece as its author writes it."""

    content: EntryContent
    entity_id: EntityId | None = None
    """Entity that the piece belongs to. Without it, the piece applies to all entities."""
    piece_id: EntryId = Field(default_factory=_derived_from)
    """Identifier; without it, one is derived from content and entity."""
    knowledge_type: KnowledgeType
    info_type: InfoType = DEFAULT_INFO_TYPE
    title: EntryTitle | None = None
    """Title; the first line of the content if it is absent."""
    type: EntryType = DEFAULT_ENTRY_TYPE
    tags: EntryTags = Field(default_factory=list)
    """Tags in the order of the author."""
    embedding_text: EmbeddingText | None = None
    """Text that is embedded instead of the content."""

    @model_validator(mode="after")
    def _fits_into_one_chunk(self) -> "KnowledgePiece":
        if fault := fault_of_length(self.content, embedding_text=self.embedding_text):
            raise wrong_field("content", message=fault)
        return self
