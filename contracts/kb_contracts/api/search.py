"""Searches: requests and results."""

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationInfo, field_validator

from kb_contracts.api.metadata_filter import MetadataFilter
from kb_contracts.api.model import StrictModel, Timestamp, example
from kb_contracts.identifiers import Identifier
from kb_contracts.text_rules import storable

MAX_IDS: Final = 100
MAX_QUERY_CHARACTERS: Final = 8_000
MAX_TOKENS: Final = 100_000
DEFAULT_MAX_TOKENS: Final = 4_000
"""Limit of the tokens of all results where a caller wants one without saying which."""
MAX_TOP_K: Final = 20
MAX_SKIP: Final = 1_000
MAX_NEIGHBORS: Final = 5
MAX_COPIES: Final = 20

RequestedKbId: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Ids: TypeAlias = Annotated[list[Identifier], Field(min_length=1, max_length=MAX_IDS)]
SearchOrigin: TypeAlias = Literal["sdk", "console", "dashboard", "cli"]
"""Kind of client that a request can name."""
LoggedOrigin: TypeAlias = Literal["sdk", "console", "cli", "agent", "mcp"]
"""Kind of client that searches and runs are kept with, and that lists can be filtered by."""
KbStatus = Literal["indexing", "active", "error"]
Strength: TypeAlias = Literal["strong", "fair", "weak"]
"""Judgement of how well a passage fits its query."""


_RESULTS: Final = {
    "results": [
        {
            "content": "Employees have 30 days of leave a year.",
            "source": "handbook.pdf",
            "document_id": "handbook",
            "chunk_index": 0,
            "strength": "strong",
            "score": 0.81,
            "also_in": [],
            "relevance": 0.83,
            "is_matched": True,
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "scores": {"vector": 0.83, "text": 4.2, "fused": 2.67, "vector_rank": 1, "text_rank": 2},
            "page_start": 3,
            "page_end": 3,
            "heading_path": ["Leave"],
            "metadata": {"year": 2026},
            "chunk_id": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
            "citation": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
            "start": 0,
            "end": 39,
            "highlights": [{"start": 18, "end": 22}],
            "truncated": False,
        }
    ],
    "query": "How many days of leave are there?",
    "total_count": 1,
    "total_count_is_exact": True,
    "skip": 0,
    "top_k": 5,
    "omitted_count": 0,
    "total_tokens": 9,
    "spu_charged": 1,
    "query_vector_cached": False,
    "timings_ms": {"embed": 84.0, "vector": 6.1, "text": 4.7, "read": 2.2, "total": 93.5},
    "degraded": [],
}
_QUERY: Final = {"query": "How many days of leave are there?", "top_k": 5, "metadata_filter": {"year": 2026}}


class SearchRequest(StrictModel):
    model_config = example(_QUERY)

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS), AfterValidator(storable)] = Field(
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
    metadata_filter: MetadataFilter | None = Field(
        None, description="Only documents whose name, tags and metadata match."
    )
    upload_date_from: Timestamp | None = Field(None, description="Only documents uploaded at this time or later.")
    upload_date_to: Timestamp | None = Field(None, description="Only documents uploaded at this time or earlier.")
    min_score: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Smallest relevance of a match that only the vector index found; 0 for none. Default: that of the "
            "knowledge base; else, with mode `hybrid`, the noise of its embedding model, if that was measured. "
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

    @field_validator("min_score")
    @classmethod
    def _no_relevance_of_words(cls, min_score: float | None, info: ValidationInfo) -> float | None:
        if min_score is not None and info.data.get("mode") == "text":
            raise ValueError("must be left out with mode text, which has no relevance; or choose another mode")
        return min_score


class SearchSeveralRequest(SearchRequest):
    model_config = example({**_QUERY, "kb_ids": ["65f1c2a3b4d5e6f708192a3b"]})

    kb_ids: Annotated[list[RequestedKbId], Field(min_length=1, max_length=MAX_IDS)] | None = Field(
        None, description="Knowledge bases to search. Default: all of the organization."
    )


class Scores(BaseModel):
    vector: float | None = Field(
        description="(1 + cosine) / 2 from the vector index; null if it did not find the chunk."
    )
    text: float | None = Field(description="BM25 score from the text index; null if it did not find the chunk.")
    fused: float | None = Field(
        description="Weighted sum of both scores, each on a scale of its own, by which matches are ordered."
    )
    vector_rank: int | None = Field(
        default=None,
        description="Rank among the chunks of the knowledge base that the vector index found, from 1; null if it did "
        "not find the chunk.",
    )
    text_rank: int | None = Field(
        default=None,
        description="Rank among the chunks of the knowledge base that the text index found, from 1; null if it did "
        "not find the chunk.",
    )


class Highlight(BaseModel):
    """A word of the query in `content`: characters `start` (included) to `end` (excluded)."""

    start: int
    end: int


class PassageCopy(BaseModel):
    """A chunk of another document, or place, with the same text and headings as a match."""

    kb_id: str
    document_id: str
    source: str = Field(description="Name of the document.")
    chunk_id: str


class SearchResult(BaseModel):
    """A chunk of a document: a match or a neighbour of a match."""

    content: str = Field(description="Text of the chunk.")
    source: str = Field(description="Name of the document.")
    document_id: str
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    highlights: list[Highlight] = Field(
        description="Words of the query in `content`, in their order, at most 100. Words are compared as the text "
        "index compares them: by their stems, if the text analyzer of the knowledge base has any. A match by meaning "
        "may have none."
    )
    chunk_id: str = Field(
        description="Stable id of the passage: it means the same text, even after the document has changed. `GET "
        "/knowledge-bases/{kb_id}/chunks/{chunk_id}` opens it."
    )
    strength: Strength = Field(
        default="weak",
        description="How well the passage fits the query, by the words of the query that it has, and by its "
        "relevance if the embedding model was measured. It never rises from one result to the next (unless "
        "`prioritize_by` orders them otherwise). A neighbour has that of its match.",
    )
    score: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Number by which results are ordered; it falls from the first to the last (unless `prioritize_by` "
        "orders them otherwise). 1: its text equals the query, and no passage has more of the words. A neighbour has "
        "the score of its match. It tells the order within one answer; it is no probability.",
    )
    also_in: list[PassageCopy] = Field(
        default=[],
        description=f"Other matches with the same text, such as copies of a file, at most {MAX_COPIES}: they take no "
        "place of their own among the results.",
    )
    relevance: float | None = Field(
        ge=0,
        le=1,
        description="(1 + cosine) / 2. Null for neighbours of matches, and if no vectors are compared: with mode "
        "`text`, or if `degraded` contains `vector`.",
    )
    is_matched: bool = Field(description="Whether the chunk is a match; false for a neighbour of a match.")
    kb_id: str
    scores: Scores = Field(description="Scores of the chunk in the indexes.")
    start: int = Field(description="Position of the first character of the chunk in the text of the document.")
    end: int = Field(
        description="Position after the last character of the chunk in the text of the document, also if `truncated`."
    )
    page_start: int | None = Field(description="First page of the chunk; null if the document has no pages.")
    page_end: int | None = Field(description="Last page of the chunk; null if the document has no pages.")
    heading_path: list[str] = Field(description="Headings above the chunk, outermost first.")
    metadata: dict[str, bool | int | float | str | datetime] = Field(description="Metadata of the document.")
    citation: str = Field(description="Same as `chunk_id`.")
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


class SearchResponse(Results):
    model_config = example({**_RESULTS, "kb_status": "active"})

    kb_status: KbStatus = Field(
        description="Status of the knowledge base. While it is `indexing`, documents are still being added."
    )


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
    model_config = example(
        {
            **_RESULTS,
            "knowledge_bases": [{"kb_id": "65f1c2a3b4d5e6f708192a3b", "name": "Handbook", "kb_status": "active"}],
            "failures": [],
        }
    )

    knowledge_bases: list[SearchedKnowledgeBase] = Field(description="Knowledge bases that were searched.")
    failures: list[FailedKnowledgeBase] = Field(description="Knowledge bases that could not be searched.")
