"""Creates queries from request bodies."""

from kb_contracts.api.search import DEFAULT_MAX_TOKENS, SearchRequest
from kb_search.filters.compile_filter import Criteria
from kb_search.retrieval.query import Mode, SearchQuery


def to_query(request: SearchRequest) -> SearchQuery:
    return SearchQuery(
        text=request.query,
        mode=Mode(request.mode),
        top_k=request.top_k,
        skip=request.skip,
        min_score=request.min_score,
        coalesce_neighbors=request.coalesce_neighbors,
        max_tokens=_max_tokens(request),
        prioritize_by=request.prioritize_by,
        criteria=Criteria(
            document_ids=request.document_ids or (),
            tag_ids=request.tag_ids or (),
            metadata_filter=request.metadata_filter,
            upload_date_from=request.upload_date_from,
            upload_date_to=request.upload_date_to,
        ),
    )


def _max_tokens(request: SearchRequest) -> int | None:
    if request.max_tokens is None and "prioritize_by" in request.model_fields_set:
        # prioritize_by is sent by callers that fit results into a context.
        return DEFAULT_MAX_TOKENS
    return request.max_tokens
