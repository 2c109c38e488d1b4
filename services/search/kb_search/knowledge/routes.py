from typing import Annotated, Final

from fastapi import Query
from pydantic import AfterValidator

from kb_contracts.api.knowledge_retrieval import (
    EntryHit,
    EntrySearchResponse,
    RetrievedKnowledge,
    RetrieveKnowledge,
)
from kb_contracts.api.search import SearchOrigin
from kb_contracts.reserved_ids import find_entry_id
from kb_contracts.text_rules import storable
from kb_search.dependencies import EntrySearch, KnowledgeRetrieval, RequestLimits, SearchKey
from kb_search.knowledge.retrieve_knowledge import KnowledgeQuery
from kb_search.origin import OriginHeader, to_origin
from kb_search.retrieval.query import SearchCaller
from kb_search.retrieval.results import Result
from kb_shared.http.limited_keys import open_to_limited_keys
from kb_shared.http.problems import responses
from kb_shared.http.routing import organization_router

router = organization_router("knowledge")

_PROBLEMS: Final = (
    "budget-exhausted",
    "index-not-ready",
    "provider-key-missing",
    "provider-refused",
    "provider-unavailable",
    "query-refused",
    "search-overloaded",
    "search-unavailable",
    "unknown-model",
    "unknown-price",
)


@router.get(
    "/knowledge/search",
    operation_id="knowledge.search",
    summary="Search entries",
    responses=responses(*_PROBLEMS),
)
@open_to_limited_keys
async def search_entries(
    entry_search: EntrySearch,
    limits: RequestLimits,
    key: SearchKey,
    *,
    q: Annotated[
        str,
        Query(min_length=1, max_length=1_000, description="Question or words to search for."),
        AfterValidator(storable),
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="Greatest number of passages.")] = 20,
    types: Annotated[
        str | None,
        Query(
            pattern=r"^[a-z0-9_]{1,40}(,[a-z0-9_]{1,40}){0,19}$",
            description="Types of entries and kinds of sources, separated by commas, such as `rule,pattern`: only "
            "entries with one of these types, or from a source of one of these kinds. Default: all.",
        ),
    ] = None,
    origin: Annotated[
        SearchOrigin | None,
        Query(description="Kind of client, for the query log and insights. Default: that of the header."),
    ] = None,
    agent_id: Annotated[str | None, Query(max_length=128, description="Agent that asks, for the query log.")] = None,
    origin_header: OriginHeader = "sdk",
) -> EntrySearchResponse:
    """Search the entries of the organization by meaning and by words, and return their best matching passages."""
    caller = key.caller
    await limits.count_request("search", caller)
    search_caller = SearchCaller(
        caller.key_id, to_origin(origin or origin_header), kb_ids=caller.kb_ids, agent_id=agent_id
    )
    answer = await entry_search.search(
        caller.organization_id,
        q,
        limit=limit,
        types=types.split(",") if types else (),
        search_caller=search_caller,
        key=key,
    )
    return EntrySearchResponse(
        hits=[hit for result in answer.fitted.results if (hit := _to_hit(result)) is not None],
        spu_charged=answer.spu_charged,
        degraded=["vector"] if answer.degraded else [],
    )


@router.post(
    "/knowledge:retrieve",
    operation_id="knowledge.retrieve",
    summary="Retrieve what is known",
    responses=responses(*_PROBLEMS, "graph-too-large"),
)
async def retrieve(
    knowledge_retrieval: KnowledgeRetrieval,
    limits: RequestLimits,
    key: SearchKey,
    *,
    body: RetrieveKnowledge,
    origin: OriginHeader = "sdk",
) -> RetrievedKnowledge:
    """Return properties of an entity, pieces that belong to a query, relations, and the sections of a prompt.

    `pieces` contains those that a search finds and those that edges of the entity are linked to, each once with its
    higher score. An entity that does not exist has empty metadata.
    """
    caller = key.caller
    await limits.count_request("search", caller)
    answer = await knowledge_retrieval.retrieve(
        caller.organization_id,
        query=_to_knowledge_query(body),
        search_caller=SearchCaller(caller.key_id, to_origin(origin), kb_ids=caller.kb_ids),
        key=key,
    )
    return RetrievedKnowledge(
        **dict(answer.result),
        omitted_pieces=answer.omitted_pieces,
        spu_charged=answer.spu_charged,
        degraded=["vector"] if answer.degraded else [],
    )


def _to_knowledge_query(body: RetrieveKnowledge) -> KnowledgeQuery:
    return KnowledgeQuery(
        text=body.query,
        entity_id=body.entity_id,
        top_k=body.top_k,
        knowledge_types=body.knowledge_types,
        info_types=body.info_types,
        tags=body.tags,
        kb_ids=body.kb_ids,
        depth=body.depth,
        metadata_info_type=body.metadata_info_type,
        item_delimiter=body.item_delimiter,
        templates=body.formatters,
    )


def _to_hit(result: Result) -> EntryHit | None:
    chunk, hit = result.chunk, result.hit
    entry_id = find_entry_id(chunk.document_id)
    if entry_id is None or hit is None:
        return None
    return EntryHit(
        entry_id=entry_id,
        chunk_id=chunk.chunk_id,
        strength=result.strength,
        score=round(result.score, 4),
        content=result.text,
        entry_title=chunk.document_name,
    )
