"""What a search answers over HTTP."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.results import Result
from kb_search.retrieval.search_knowledge_base import SearchAnswer
from kb_shared.errors import KbError
from kb_shared.http.problems import as_request_error
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status


class Scores(BaseModel):
    vector: float | None = Field(description="(1 + cosine) / 2, as the vector index gave it; null where it did not.")
    text: float | None = Field(description="BM25 of the words; null where none of them was found.")
    fused: float | None = Field(description="What the ranks are worth together; the order of matches.")


class SearchResult(BaseModel):
    """A chunk of a document."""

    content: str
    source: str = Field(description="Name of the document.")
    document_id: str
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    relevance: float | None = Field(
        ge=0,
        le=1,
        description="(1 + cosine) / 2. Null of neighbours, and where no vectors are compared: with mode `text`, or if "
        "`degraded` says so.",
    )
    is_matched: bool = Field(description="False of a neighbour of a match.")
    kb_id: str
    scores: Scores
    page_start: int | None
    page_end: int | None
    heading_path: list[str]
    metadata: dict[str, bool | int | float | str | datetime]
    citation: str = Field(description="Names this passage for good: the same text, also after the document changed.")
    truncated: bool = Field(description="`content` is the beginning of the chunk, because of `max_tokens`.")


class TimingsMs(BaseModel):
    """Both indexes are asked at the same time."""

    embed: float
    vector: float
    text: float
    read: float
    total: float


class Results(BaseModel):
    results: list[SearchResult]
    query: str
    total_count: int = Field(description="Matches known of, on all pages.")
    total_count_is_exact: bool
    skip: int
    top_k: int
    omitted_count: int = Field(description="Results of this page that `max_tokens` had no room for.")
    total_tokens: int = Field(description="Of the content of all results.")
    spu_charged: int
    query_vector_cached: bool | None = Field(
        description="Whether the query's vector came from the cache (of several models: all of them), so that no "
        "provider was asked; null where no vector was used, as with mode `text`."
    )
    timings_ms: TimingsMs
    degraded: list[Literal["vector"]] = Field(
        description="What a hybrid search went without: `vector`, if the embedding provider gave no vector of the "
        "query in time. Its results are those that words found, without a relevance."
    )


KbStatus = Literal["indexing", "active", "error"]


class SearchResponse(Results):
    kb_status: KbStatus = Field(description="While `indexing`, documents are still being added.")

    @classmethod
    def from_answer(cls, query: SearchQuery, answer: SearchAnswer) -> "SearchResponse":
        [kb] = answer.kbs
        return cls.model_validate({**_results(query, answer), "kb_status": _status(kb)})


class SearchedKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    kb_status: KbStatus


class FailedKnowledgeBase(BaseModel):
    """A knowledge base that could not be searched, as the problem that searching it alone would have been."""

    kb_id: str
    status: int
    type: str
    detail: str


class SearchSeveralResponse(Results):
    knowledge_bases: list[SearchedKnowledgeBase] = Field(description="Those that were searched.")
    failures: list[FailedKnowledgeBase] = Field(description="Those that could not be, each with what to do about it.")

    @classmethod
    def from_answer(cls, query: SearchQuery, answer: SearchAnswer) -> "SearchSeveralResponse":
        searched = [SearchedKnowledgeBase(kb_id=kb.kb_id, name=kb.name, kb_status=_status(kb)) for kb in answer.kbs]
        failures = [_failure(kb_id, error) for kb_id, error in answer.failures.items()]
        return cls.model_validate({**_results(query, answer), "knowledge_bases": searched, "failures": failures})


def _failure(kb_id: str, error: KbError) -> FailedKnowledgeBase:
    problem = as_request_error(error)
    return FailedKnowledgeBase(kb_id=kb_id, status=problem.status, type=problem.slug, detail=problem.detail)


def _results(query: SearchQuery, answer: SearchAnswer) -> dict[str, Any]:
    # Not models: to validate all of them in one go takes two thirds of the time.
    return {
        "results": [_result(result) for result in answer.fitted.results],
        "query": query.text,
        "total_count": answer.page.total_count,
        "total_count_is_exact": answer.page.total_count_is_exact,
        "skip": query.skip,
        "top_k": query.top_k,
        "omitted_count": answer.fitted.omitted_count,
        "total_tokens": answer.fitted.total_tokens,
        "spu_charged": answer.spu_charged,
        "query_vector_cached": answer.query_vector_cached,
        "timings_ms": answer.timings_ms,
        "degraded": ["vector"] if answer.degraded else [],
    }


def _status(kb: KnowledgeBase) -> KbStatus:
    match kb.status:
        case Status.ACTIVE:
            return "active"
        case Status.ERROR:
            return "error"
        case _:
            return "indexing"


def _result(result: Result) -> dict[str, Any]:
    chunk, hit = result.chunk, result.hit
    return {
        "content": result.text,
        "source": chunk["document_name"],
        "document_id": chunk["document_id"],
        "chunk_index": chunk["chunk_index"],
        "relevance": None if hit is None else hit.relevance,
        "is_matched": hit is not None,
        "kb_id": result.kb.kb_id,
        "scores": {
            "vector": None if hit is None else hit.scores.vector,
            "text": None if hit is None else hit.scores.text,
            "fused": None if hit is None else hit.scores.fused,
        },
        "page_start": chunk["page_start"],
        "page_end": chunk["page_end"],
        "heading_path": chunk["heading_path"],
        "metadata": chunk["metadata_snapshot"],
        # The id of a chunk always means the same text; a position does not outlive a change of the document.
        "citation": chunk["_id"],
        "truncated": result.truncated,
    }
