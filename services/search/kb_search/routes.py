from typing import Annotated

from fastapi import APIRouter, Depends

from kb_search.search_knowledge_base import KnowledgeBaseSearch
from kb_search.search_request import SearchRequest
from kb_search.search_response import SearchResponse
from kb_shared.http.authentication import Caller, require
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router
from kb_shared.mongo.api_keys import Scope

Searcher = Annotated[Caller, Depends(require(Scope.SEARCH))]


def search_router(knowledge_base_search: KnowledgeBaseSearch) -> APIRouter:
    router = organization_router("search")

    @router.post("/knowledge-bases/{kb_id}/search", summary="Search a knowledge base", responses=responses(402))
    async def search(kb_id: str, body: SearchRequest, caller: Searcher) -> SearchResponse:
        query = body.to_query()
        return SearchResponse.of(query, await knowledge_base_search.search(caller.organization_id, kb_id, query))

    return router
