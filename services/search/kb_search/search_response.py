"""What a search answers over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_search.search_knowledge_base import Answer, SearchQuery
from kb_search.selection import Hit
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status


class Scores(BaseModel):
    vector: float | None = Field(description="(1 + cosine) / 2, as the vector index gave it.")
    text: float | None = None
    fused: float | None = None


class SearchResult(BaseModel):
    """A chunk of a document."""

    content: str
    source: str = Field(description="Name of the document.")
    document_id: str
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    relevance: float = Field(ge=0, le=1)
    is_matched: bool
    kb_id: str
    scores: Scores
    page_start: int | None
    page_end: int | None
    heading_path: list[str]
    metadata: dict[str, bool | int | float | str | datetime]
    citation: str = Field(description="Names this passage for good: the same text, also after the document changed.")
    truncated: bool


class TimingsMs(BaseModel):
    embed: float
    vector: float
    read: float
    total: float


class SearchResponse(BaseModel):
    results: list[SearchResult]
    query: str
    total_count: int = Field(description="Results known of, on all pages.")
    total_count_is_exact: bool
    skip: int
    top_k: int
    omitted_count: int
    total_tokens: int
    kb_status: Literal["indexing", "active", "error"] = Field(
        description="While `indexing`, documents are still being added."
    )
    spu_charged: int
    timings_ms: TimingsMs

    @classmethod
    def of(cls, query: SearchQuery, answer: Answer) -> "SearchResponse":
        return cls(
            results=[_result(answer.kb, hit) for hit in answer.page.hits],
            query=query.text,
            total_count=answer.page.total_count,
            total_count_is_exact=answer.page.total_count_is_exact,
            skip=query.skip,
            top_k=query.top_k,
            omitted_count=0,
            total_tokens=sum(hit.chunk["token_count"] for hit in answer.page.hits),
            kb_status=_status(answer.kb),
            spu_charged=answer.spu_charged,
            timings_ms=TimingsMs.model_validate(answer.timings_ms),
        )


def _status(kb: KnowledgeBase) -> Literal["indexing", "active", "error"]:
    match kb.status:
        case Status.ACTIVE:
            return "active"
        case Status.ERROR:
            return "error"
        case _:
            return "indexing"


def _result(kb: KnowledgeBase, hit: Hit) -> SearchResult:
    chunk = hit.chunk
    return SearchResult(
        content=chunk["chunk_text"],
        source=chunk["document_name"],
        document_id=chunk["document_id"],
        chunk_index=chunk["chunk_index"],
        relevance=hit.relevance,
        is_matched=True,
        kb_id=kb.kb_id,
        scores=Scores(vector=hit.score),
        page_start=chunk["page_start"],
        page_end=chunk["page_end"],
        heading_path=chunk["heading_path"],
        metadata=chunk["metadata_snapshot"],
        # The id of a chunk always means the same text; a position does not outlive a change of the document.
        citation=chunk["_id"],
        truncated=False,
    )
