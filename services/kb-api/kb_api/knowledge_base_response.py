"""A KB as the API shows it."""

from collections.abc import Collection
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

ShownStatus = Literal[Status.CREATING, Status.BUILDING, Status.INDEXING, Status.ACTIVE, Status.ERROR]


class RateLimitsView(BaseModel):
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class KnowledgeBaseView(BaseModel):
    kb_id: str
    name: str
    description: str
    tag_ids: list[str]
    dead_tag_ids: list[str] = Field(description="Those of `tag_ids` that were deleted; documents may still have them.")
    chunker_type: str
    chunk_size: int
    chunk_overlap: int
    embedding_model: str
    embedding_dimensions: int
    coalesce_neighbors: int
    min_score: float | None
    text_analyzer: str
    text_normalization: int = Field(
        description="How texts are normalized for the model and the word index: 2 folds ligatures and soft hyphens and "
        "cuts long white space; 1 leaves texts as they are, in knowledge bases made before there was 2."
    )
    filterable_metadata: list[str]
    max_chunks_per_document: int
    rate_limits: RateLimitsView
    status: ShownStatus
    status_reason: str | None
    paused_at: datetime | None
    warnings: list[str]
    document_count: int
    chunk_count: int
    created_at: datetime
    updated_at: datetime
    created_by: str
    updated_by: str
    last_searched_at: datetime | None

    @classmethod
    def from_knowledge_base(
        cls, kb: KnowledgeBase, *, documents: int, chunks: int, dead_tags: Collection[str] = ()
    ) -> "KnowledgeBaseView":
        return cls(
            kb_id=kb.kb_id,
            name=kb.name,
            description=kb.description,
            tag_ids=list(kb.tag_ids),
            dead_tag_ids=[tag_id for tag_id in kb.tag_ids if tag_id in dead_tags],
            chunker_type=kb.chunker_type,
            chunk_size=kb.chunk_size,
            chunk_overlap=kb.chunk_overlap,
            embedding_model=kb.embedding_model,
            embedding_dimensions=kb.embedding_dimensions,
            coalesce_neighbors=kb.coalesce_neighbors,
            min_score=kb.min_score,
            text_analyzer=kb.text_analyzer,
            text_normalization=kb.text_normalization,
            filterable_metadata=list(kb.filterable_metadata),
            max_chunks_per_document=kb.max_chunks_per_document,
            rate_limits=RateLimitsView.model_validate(dict(kb.rate_limits)),
            status=kb.status,
            status_reason=kb.status_reason,
            paused_at=kb.paused_at,
            warnings=list(kb.warnings),
            document_count=documents,
            chunk_count=chunks,
            created_at=kb.created_at,
            updated_at=kb.updated_at,
            created_by=kb.created_by,
            updated_by=kb.updated_by,
            last_searched_at=kb.last_searched_at,
        )


class KnowledgeBaseList(BaseModel):
    knowledge_bases: list[KnowledgeBaseView]
    total_count: int
