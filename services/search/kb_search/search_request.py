"""Request bodies of searches."""

from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from kb_contracts.documents import Text
from kb_contracts.identifiers import Identifier
from kb_search.filters.compile_filter import Criteria
from kb_search.filters.filter_schema import describe_filter
from kb_search.retrieval.context_budget import DEFAULT_MAX_TOKENS
from kb_search.retrieval.query import MAX_NEIGHBORS, MAX_SKIP, MAX_TOP_K, Mode, SearchQuery
from kb_shared.http.model import StrictModel, Timestamp
from kb_shared.http.problems import invalid_field

MAX_IDS: Final = 100
MAX_QUERY_CHARACTERS: Final = 8_000
MAX_TOKENS: Final = 100_000


RequestedKbId: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Ids: TypeAlias = Annotated[list[Identifier], Field(min_length=1, max_length=MAX_IDS)]


class SearchRequest(StrictModel):
    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)] = Field(
        description="Question or words to search for."
    )
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="Number of matches on a page. Default: 5.")
    skip: int = Field(0, ge=0, le=MAX_SKIP, description="Number of matches to skip. Default: 0.")
    mode: Literal["hybrid", "vector", "text"] = Field(
        "hybrid",
        description="`vector`: by meaning; `text`: by words, which needs no embedding and costs nothing; `hybrid`: "
        "both.",
    )
    document_ids: Ids | None = Field(None, description="Only these documents.")
    tag_ids: Ids | None = Field(None, description="Only documents with any of these tags.")
    # Checked by `metadata_filter`, which names the key that is wrong and says why.
    metadata_filter: dict[str, Any] | None = Field(None, json_schema_extra=describe_filter)
    upload_date_from: Timestamp | None = Field(None, description="Only documents uploaded at this time or later.")
    upload_date_to: Timestamp | None = Field(None, description="Only documents uploaded at this time or earlier.")
    min_score: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Smallest relevance of a match that only the vector index found. Default: that of the knowledge base. "
            "Not allowed with mode `text`."
        ),
    )
    coalesce_neighbors: int | None = Field(
        None,
        ge=0,
        le=MAX_NEIGHBORS,
        description="Number of chunks on each side of a match to return with it. Default: that of the knowledge base.",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Greatest number of tokens of all results together: the last one may be truncated, others omitted. "
        f"Default: no limit; with `prioritize_by` {DEFAULT_MAX_TOKENS}.",
    )
    prioritize_by: Literal["similarity", "recency", "balanced"] = Field(
        "similarity", description="Order in which results are kept within `max_tokens`, and returned."
    )

    @model_validator(mode="after")
    def _no_relevance_of_words(self) -> Self:
        if self.mode == "text" and self.min_score is not None:
            raise invalid_field(
                "min_score", "With mode text there is no relevance; leave min_score out, or choose another mode"
            )
        return self

    def to_query(self) -> SearchQuery:
        return SearchQuery(
            text=self.query,
            mode=Mode(self.mode),
            top_k=self.top_k,
            skip=self.skip,
            min_score=self.min_score,
            coalesce_neighbors=self.coalesce_neighbors,
            max_tokens=self._max_tokens(),
            prioritize_by=self.prioritize_by,
            criteria=Criteria(
                document_ids=self.document_ids or (),
                tag_ids=self.tag_ids or (),
                metadata_filter=self.metadata_filter,
                upload_date_from=self.upload_date_from,
                upload_date_to=self.upload_date_to,
            ),
        )

    def _max_tokens(self) -> int | None:
        if self.max_tokens is None and "prioritize_by" in self.model_fields_set:
            # prioritize_by is sent by callers that fit results into a context.
            return DEFAULT_MAX_TOKENS
        return self.max_tokens


class SearchSeveralRequest(SearchRequest):
    kb_ids: Annotated[list[RequestedKbId], Field(min_length=1, max_length=MAX_IDS)] | None = Field(
        None, description="Knowledge bases to search. Default: all of the organization."
    )
