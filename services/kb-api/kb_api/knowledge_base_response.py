"""Responses about KBs."""

from collections.abc import Collection
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status

ShownStatus = Literal[Status.CREATING, Status.BUILDING, Status.INDEXING, Status.ACTIVE, Status.ERROR]


class RateLimitsView(BaseModel):
    requests_per_minute: int | None = Field(default=None, description="Limit of requests a minute; null: no limit.")
    tokens_per_minute: int | None = Field(default=None, description="Limit of tokens a minute; null: no limit.")


class KnowledgeBaseView(BaseModel):
    kb_id: str
    name: str
    description: str
    tag_ids: list[str] = Field(description="Tags of the knowledge base: every document with one of them belongs to it.")
    dead_tag_ids: list[str] = Field(description="Tags of `tag_ids` that were deleted. Documents may still have them.")
    chunker_type: str
    chunk_size: int = Field(description="Greatest number of tokens of a chunk.")
    chunk_overlap: int = Field(description="Number of tokens of the previous chunk that a chunk repeats.")
    embedding_model: str
    embedding_dimensions: int = Field(description="Number of dimensions of a vector.")
    coalesce_neighbors: int = Field(
        description="Number of chunks on each side of a match that a search returns by default."
    )
    min_score: float | None = Field(description="Default of `min_score` of searches; null: no minimum.")
    text_analyzer: str = Field(description="Atlas Search analyzer of the text index.")
    text_normalization: int = Field(
        description="Version of the normalization of texts. 2 replaces ligatures, removes soft hyphens and shortens "
        "long white space; 1, of older knowledge bases, changes nothing."
    )
    filterable_metadata: list[str] = Field(description="Metadata keys for which filters can use all operators.")
    max_chunks_per_document: int = Field(
        description="Greatest number of chunks of a document. A document with more is not indexed."
    )
    rate_limits: RateLimitsView
    status: ShownStatus = Field(
        description="`creating` and `building` while the search indexes are built, `indexing` while documents are "
        "added or removed, then `active`; `error` if an index failed."
    )
    status_reason: str | None = Field(description="Explanation of the status, if it needs one.")
    paused_at: datetime | None = Field(
        description="Time at which the knowledge base was paused; null if it is not paused."
    )
    warnings: list[str] = Field(description="Warnings about the configuration.")
    document_count: int = Field(description="Number of indexed documents.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(
        description="Id of the API key that created the knowledge base; `import:` and the id of the export after "
        "`kb import`."
    )
    updated_by: str = Field(description="Id of the API key that made the last change.")
    last_searched_at: datetime | None = Field(description="Time of the last search; null if there was none.")

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
    total_count: int = Field(description="Number of items on all pages.")
