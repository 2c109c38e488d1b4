from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header

from kb_search.retrieval.query import Asker
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.search_request import SearchRequest, SearchSeveralRequest
from kb_search.search_response import SearchResponse, SearchSeveralResponse
from kb_shared.http.authentication import CachedKey, CachedKeyWith, Caller
from kb_shared.http.problems import responses
from kb_shared.http.request_limits import RequestLimits
from kb_shared.http.routing import organization_router
from kb_shared.mongo.api_keys import Scope

Searcher = Annotated[CachedKey, Depends(CachedKeyWith(Scope.SEARCH))]
FromWhere = Annotated[
    Literal["sdk", "console", "dashboard", "cli"],
    Header(alias="X-KB-Origin", description="Who asks, for the query log; `dashboard` is the same as `console`."),
]


def search_router(knowledge_base_search: KnowledgeBaseSearch, limits: RequestLimits) -> APIRouter:
    router = organization_router("search")

    @router.post(
        "/knowledge-bases/{kb_id}/search", summary="Search a knowledge base", responses=responses(402, 409, 429)
    )
    async def search(kb_id: str, body: SearchRequest, key: Searcher, origin: FromWhere = "sdk") -> SearchResponse:
        caller = key.caller
        await limits.count_request("search", caller)
        query, asker = body.to_query(), _asker(caller, origin)
        return SearchResponse.from_answer(
            query, await knowledge_base_search.search(caller.organization_id, kb_id, query, asker, key=key)
        )

    @router.post(
        "/knowledge-bases/search", summary="Search several knowledge bases", responses=responses(402, 409, 429)
    )
    async def search_several(
        body: SearchSeveralRequest, key: Searcher, origin: FromWhere = "sdk"
    ) -> SearchSeveralResponse:
        """Their ranks are fused, whatever their models. What goes wrong with one is told in `failures`."""
        caller = key.caller
        await limits.count_request("search", caller)
        query, asker = body.to_query(), _asker(caller, origin)
        return SearchSeveralResponse.from_answer(
            query,
            await knowledge_base_search.search_several(caller.organization_id, body.kb_ids, query, asker, key=key),
        )

    return router


def _asker(caller: Caller, origin: FromWhere) -> Asker:
    return Asker(caller.key_id, "console" if origin == "dashboard" else origin)
