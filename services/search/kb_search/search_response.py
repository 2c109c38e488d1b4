"""Responses of searches."""

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
    vector: float | None = Field(
        description="(1 + cosine) / 2 from the vector index; null if it did not find the chunk."
    )
    text: float | None = Field(description="BM25 score from the text index; null if it did not find the chunk.")
    fused: float | None = Field(description="Combined score of both ranks, by which matches are ordered.")


class SearchResult(BaseModel):
    """A chunk of a document: a match or a neighbour of a match."""

    content: str = Field(description="Text of the chunk.")
    source: str = Field(description="Name of the document.")
    document_id: str
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    relevance: float | None = Field(
        ge=0,
        le=1,
        description="(1 + cosine) / 2. Null for neighbours of matches, and if no vectors are compared: with mode "
        "`text`, or if `degraded` contains `vector`.",
    )
    is_matched: bool = Field(description="Whether the chunk is a match; false for a neighbour of a match.")
    kb_id: str
    scores: Scores = Field(description="Scores of the chunk in the indexes.")
    page_start: int | None = Field(description="First page of the chunk; null if the document has no pages.")
    page_end: int | None = Field(description="Last page of the chunk; null if the document has no pages.")
    heading_path: list[str] = Field(description="Headings above the chunk, outermost first.")
    metadata: dict[str, bool | int | float | str | datetime] = Field(description="Metadata of the document.")
    citation: str = Field(
        description="Stable id of the passage: it means the same text, even after the document has changed."
    )
    truncated: bool = Field(
        description="Whether `content` is only the beginning of the chunk, because of `max_tokens`."
    )


class TimingsMs(BaseModel):
    """Durations in milliseconds. Both indexes are queried at the same time."""

    embed: float = Field(description="Waiting for the vector of the query.")
    vector: float = Field(description="Query of the vector index.")
    text: float = Field(description="Query of the text index.")
    read: float = Field(description="Reading the chunks.")
    total: float = Field(description="The whole search.")


class Results(BaseModel):
    results: list[SearchResult]
    query: str
    total_count: int = Field(description="Number of known matches on all pages.")
    total_count_is_exact: bool = Field(description="Whether there are no further matches.")
    skip: int
    top_k: int
    omitted_count: int = Field(description="Number of results of this page that did not fit into `max_tokens`.")
    total_tokens: int = Field(description="Number of tokens of the content of all results.")
    spu_charged: int = Field(description="SPUs charged for embedding the query; 0 if its vector was cached.")
    query_vector_cached: bool | None = Field(
        description="Whether the vector of the query (of all models) came from the cache, so that no provider was "
        "called. Null if no vector was used, as with mode `text`."
    )
    timings_ms: TimingsMs
    degraded: list[Literal["vector"]] = Field(
        description="Parts that a hybrid search was answered without: `vector` if the embedding provider returned no "
        "vector in time. The results then come from the text index and have no relevance."
    )


KbStatus = Literal["indexing", "active", "error"]


class SearchResponse(Results):
    kb_status: KbStatus = Field(
        description="Status of the knowledge base. While it is `indexing`, documents are still being added."
    )

    @classmethod
    def from_answer(cls, query: SearchQuery, answer: SearchAnswer) -> "SearchResponse":
        [kb] = answer.kbs
        return cls.model_validate({**_results(query, answer), "kb_status": _status(kb)})


class SearchedKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    kb_status: KbStatus


class FailedKnowledgeBase(BaseModel):
    """A knowledge base that could not be searched, with the problem that a search of it alone would have returned."""

    kb_id: str
    status: int = Field(description="HTTP status of the problem.")
    type: str = Field(description="Slug of the problem.")
    detail: str = Field(description="Explanation of the problem and what to do about it.")


class SearchSeveralResponse(Results):
    knowledge_bases: list[SearchedKnowledgeBase] = Field(description="Knowledge bases that were searched.")
    failures: list[FailedKnowledgeBase] = Field(description="Knowledge bases that could not be searched.")

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
        "source": chunk.document_name,
        "document_id": chunk.document_id,
        "chunk_index": chunk.chunk_index,
        "relevance": None if hit is None else hit.relevance,
        "is_matched": hit is not None,
        "kb_id": result.kb.kb_id,
        "scores": {
            "vector": None if hit is None else hit.scores.vector,
            "text": None if hit is None else hit.scores.text,
            "fused": None if hit is None else hit.scores.fused,
        },
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading_path": chunk.heading_path,
        "metadata": chunk.metadata,
        # The id of a chunk always means the same text; a position does not outlive a change of the document.
        "citation": chunk.chunk_id,
        "truncated": result.truncated,
    }
