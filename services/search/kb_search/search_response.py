"""Creates responses from the answers of searches."""

from typing import Any

from kb_contracts.api.search import (
    FailedKnowledgeBase,
    KbStatus,
    SearchedKnowledgeBase,
    SearchResponse,
    SearchSeveralResponse,
)
from kb_contracts.api.search_explanations import LegRank, SearchExplanationView
from kb_search.retrieval.explain_search import DocumentRank, SearchExplanation
from kb_search.retrieval.highlighting import Highlighter
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.results import Result
from kb_search.retrieval.search_knowledge_base import SearchAnswer
from kb_shared.errors import KbError
from kb_shared.http.problems import as_request_error
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.text.text_normalization import SPELLED


def to_response(query: SearchQuery, answer: SearchAnswer) -> SearchResponse:
    [kb] = answer.kbs
    return SearchResponse.model_validate({**_results(query, answer), "kb_status": _status(kb)})


def to_several_response(query: SearchQuery, answer: SearchAnswer) -> SearchSeveralResponse:
    searched = [SearchedKnowledgeBase(kb_id=kb.kb_id, name=kb.name, kb_status=_status(kb)) for kb in answer.kbs]
    failures = [_failure(kb_id, error) for kb_id, error in answer.failures.items()]
    return SearchSeveralResponse.model_validate(
        {**_results(query, answer), "knowledge_bases": searched, "failures": failures}
    )


def to_explanation_view(key: MembershipKey, explanation: SearchExplanation) -> SearchExplanationView:
    ranks = explanation.ranks
    return SearchExplanationView(
        kb_id=key.kb_id,
        document_id=key.document_id,
        reason=explanation.reason,
        detail=explanation.detail,
        position=explanation.position,
        filtered_out_by=list(explanation.filtered_out_by),
        vector=_leg_rank(ranks.vector),
        text=_leg_rank(ranks.text),
        fused=_leg_rank(ranks.fused),
        relevance=None if ranks.vector is None else ranks.vector.score,
        min_score=explanation.min_score,
        spu_charged=explanation.spu_charged,
    )


def _leg_rank(found: DocumentRank | None) -> LegRank | None:
    return None if found is None else LegRank(rank=found.rank, score=found.score)


def _failure(kb_id: str, error: KbError) -> FailedKnowledgeBase:
    problem = as_request_error(error)
    return FailedKnowledgeBase(kb_id=kb_id, status=problem.status, type=problem.slug, detail=problem.detail)


def _results(query: SearchQuery, answer: SearchAnswer) -> dict[str, Any]:
    highlighter = Highlighter(query.text)
    # Not models: to validate all of them in one go takes two thirds of the time.
    return {
        "results": [_result(result, highlighter) for result in answer.fitted.results],
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


def _result(result: Result, highlighter: Highlighter) -> dict[str, Any]:
    chunk, hit = result.chunk, result.hit
    return {
        "content": result.text,
        "highlights": [
            {"start": start, "end": end}
            for start, end in highlighter.find(
                result.text, result.kb.text_analyzer, has_spellings=result.kb.text_normalization == SPELLED
            )
        ],
        # The id of a chunk always means the same text; a position does not outlive a change of the document.
        "chunk_id": chunk.chunk_id,
        "source": chunk.document_name,
        "document_id": chunk.document_id,
        "chunk_index": chunk.chunk_index,
        "strength": result.strength,
        "score": round(result.score, 4),
        "also_in": result.also_in,
        "relevance": None if hit is None else hit.relevance,
        "is_matched": hit is not None,
        "kb_id": result.kb.kb_id,
        "scores": {
            "vector": None if hit is None else hit.scores.vector,
            "text": None if hit is None else hit.scores.text,
            "fused": None if hit is None else hit.scores.fused,
            "vector_rank": None if hit is None else hit.scores.vector_rank,
            "text_rank": None if hit is None else hit.scores.text_rank,
        },
        "start": chunk.start,
        "end": chunk.end,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading_path": chunk.heading_path,
        "metadata": chunk.metadata,
        "citation": chunk.chunk_id,
        "truncated": result.truncated,
    }
