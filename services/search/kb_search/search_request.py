"""What a search takes over HTTP."""

from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from kb_contracts.documents import Text
from kb_contracts.identifiers import Identifier
from kb_search.filters.compile_filter import Criteria
from kb_search.filters.filter_schema import describe_filter
from kb_search.retrieval.context_budget import DEFAULT_MAX_TOKENS
from kb_search.retrieval.query import MAX_NEIGHBORS, MAX_SKIP, MAX_TOP_K, Mode, SearchQuery
from kb_shared.http.model import Model, Timestamp
from kb_shared.http.problems import invalid_field

MAX_IDS: Final = 100
MAX_QUERY_CHARACTERS: Final = 8_000
MAX_TOKENS: Final = 100_000


KbId: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Ids: TypeAlias = Annotated[list[Identifier], Field(min_length=1, max_length=MAX_IDS)]


class SearchRequest(Model):
    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="Matches on a page.")
    skip: int = Field(0, ge=0, le=MAX_SKIP, description="Matches before the page.")
    mode: Literal["hybrid", "vector", "text"] = Field(
        "hybrid",
        description="By meaning (`vector`), by words (`text`, which embeds nothing and costs nothing), or by both.",
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
            "Least relevance of a match that only the vectors found; by default what the knowledge base says. Not with "
            "mode `text`."
        ),
    )
    coalesce_neighbors: int | None = Field(
        None,
        ge=0,
        le=MAX_NEIGHBORS,
        description="Chunks on either side of a match that come with it; by default what the knowledge base says.",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_TOKENS,
        description="Of all results together; the last may be truncated, others omitted. By default all results of the "
        f"page are whole; with `prioritize_by` {DEFAULT_MAX_TOKENS}.",
    )
    prioritize_by: Literal["similarity", "recency", "balanced"] = Field(
        "similarity", description="What `max_tokens` are spent on first, and so the order of results."
    )

    @model_validator(mode="after")
    def _no_relevance_of_words(self) -> Self:
        if self.mode == "text" and self.min_score is not None:
            raise invalid_field("min_score", "With mode text nothing has a relevance; leave it out, or choose a mode")
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
            # Who says what a context is for wants one.
            return DEFAULT_MAX_TOKENS
        return self.max_tokens


class SearchSeveralRequest(SearchRequest):
    kb_ids: Annotated[list[KbId], Field(min_length=1, max_length=MAX_IDS)] | None = Field(
        None, description="Only these knowledge bases; by default all of the organization's."
    )
