from typing import Final

from kb_contracts.api.search import (
    SearchRequest,
    SearchResponse,
    SearchSeveralRequest,
    SearchSeveralResponse,
)
from kb_contracts.api.search_explanations import ExplainSearchRequest, SearchExplanationView
from kb_search.dependencies import KnowledgeBaseSearch, RequestLimits, Runner, SearchExplainer, SearchKey
from kb_search.origin import OriginHeader, to_origin
from kb_search.retrieval.query import SearchCaller
from kb_search.search_request import to_query
from kb_search.search_response import to_explanation_view, to_response, to_several_response
from kb_shared.http.authentication import Caller
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey

router = organization_router("search")

_PROBLEMS: Final = responses(
    "budget-exhausted",
    "filter-building",
    "filter-too-broad",
    "index-not-ready",
    "invalid-filter",
    "not-filterable",
    "provider-key-missing",
    "provider-refused",
    "provider-unavailable",
    "query-refused",
    "search-overloaded",
    "search-unavailable",
    "unknown-model",
    "unknown-price",
)


@router.post(
    "/knowledge-bases/{kb_id}/search",
    operation_id="knowledge_bases.search",
    summary="Search a knowledge base",
    responses=_PROBLEMS,
)
async def search(
    knowledge_base_search: KnowledgeBaseSearch,
    limits: RequestLimits,
    key: SearchKey,
    *,
    kb_id: str,
    body: SearchRequest,
    origin: OriginHeader = "sdk",
) -> SearchResponse:
    """Search by meaning, by words, or both, and return the best matching chunks."""
    caller = key.caller
    await limits.count_request("search", caller)
    query, search_caller = to_query(body), _search_caller(caller, origin)
    answer = await knowledge_base_search.search(
        KnowledgeBaseKey(caller.organization_id, kb_id), query=query, search_caller=search_caller, key=key
    )
    return to_response(query, answer)


@router.post(
    "/knowledge-bases/{kb_id}/search/explain",
    operation_id="knowledge_bases.explain_search",
    summary="Explain why a document is not among the results",
    responses=_PROBLEMS,
)
async def explain(
    explainer: SearchExplainer,
    limits: RequestLimits,
    caller: Runner,
    *,
    kb_id: str,
    body: ExplainSearchRequest,
) -> SearchExplanationView:
    """Make a search and explain why a document is, or is not, among its results, with its rank in each index.

    The search is not part of the insights. It embeds the query as any search does.
    """
    await limits.count_request("search", caller)
    key = MembershipKey(caller.organization_id, kb_id, body.document_id)
    search_caller = SearchCaller(caller.key_id, "console", kb_ids=caller.kb_ids)
    explanation = await explainer.explain(key, query=to_query(body), search_caller=search_caller)
    return to_explanation_view(key, explanation)


@router.post(
    "/knowledge-bases/search",
    operation_id="knowledge_bases.search_several",
    summary="Search several knowledge bases",
    responses=_PROBLEMS,
)
@open_to_limited_keys
async def search_several(
    knowledge_base_search: KnowledgeBaseSearch,
    limits: RequestLimits,
    key: SearchKey,
    *,
    body: SearchSeveralRequest,
    origin: OriginHeader = "sdk",
) -> SearchSeveralResponse:
    """Search several knowledge bases and merge the results by rank, also if their models differ.

    Knowledge bases that could not be searched are listed in `failures`.
    """
    caller = key.caller
    await limits.count_request("search", caller)
    query, search_caller = to_query(body), _search_caller(caller, origin)
    answer = await knowledge_base_search.search_several(
        caller.organization_id, kb_ids=body.kb_ids, query=query, search_caller=search_caller, key=key
    )
    return to_several_response(query, answer)


def _search_caller(caller: Caller, origin: OriginHeader) -> SearchCaller:
    return SearchCaller(caller.key_id, to_origin(origin), kb_ids=caller.kb_ids)
