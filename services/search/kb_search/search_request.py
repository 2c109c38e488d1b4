"""What a search takes over HTTP."""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from kb_search.filter_schema import describe_filter
from kb_search.filters import Criteria
from kb_search.search_knowledge_base import MAX_SKIP, MAX_TOP_K, SearchQuery
from kb_shared.contracts.documents import Text
from kb_shared.http.model import Model, Timestamp
from kb_shared.identifiers import Identifier

MAX_IDS: Final = 100
MAX_QUERY_CHARACTERS: Final = 8_000


def _available(mode: object) -> object:
    if mode in ("hybrid", "text"):
        raise ValueError("is not available yet: it comes with the text index; use vector")
    return mode


def _not_yet(_: object) -> None:
    raise ValueError("is not available yet; leave it out")


Ids: TypeAlias = Annotated[list[Identifier], Field(min_length=1, max_length=MAX_IDS)]
NotYet: TypeAlias = SkipJsonSchema[Annotated[None, BeforeValidator(_not_yet)]]


class SearchRequest(Model):
    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="Results on a page.")
    skip: int = Field(0, ge=0, le=MAX_SKIP, description="Results before the page.")
    mode: Annotated[Literal["vector"], BeforeValidator(_available)] = "vector"
    document_ids: Ids | None = Field(None, description="Only these documents.")
    tag_ids: Ids | None = Field(None, description="Only documents with any of these tags.")
    # Checked by `metadata_filter`, which names the key that is wrong and says why.
    metadata_filter: dict[str, Any] | None = Field(None, json_schema_extra=describe_filter)
    upload_date_from: Timestamp | None = Field(None, description="Only documents uploaded at this time or later.")
    upload_date_to: Timestamp | None = Field(None, description="Only documents uploaded at this time or earlier.")
    min_score: float | None = Field(
        None, ge=0, le=1, description="Least relevance of a result; by default what the knowledge base says."
    )
    coalesce_neighbors: NotYet = None
    max_tokens: NotYet = None
    prioritize_by: NotYet = None

    def to_query(self) -> SearchQuery:
        return SearchQuery(
            text=self.query,
            top_k=self.top_k,
            skip=self.skip,
            min_score=self.min_score,
            criteria=Criteria(
                document_ids=self.document_ids or (),
                tag_ids=self.tag_ids or (),
                metadata_filter=self.metadata_filter,
                upload_date_from=self.upload_date_from,
                upload_date_to=self.upload_date_to,
            ),
        )
