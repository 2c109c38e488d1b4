"""Insights into the searches and runs of an organization."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

Insight: TypeAlias = Literal["top", "zero_results", "failed", "slow"]
SearchGroup: TypeAlias = Literal["day", "origin", "kb"]
CitedBy = Literal["most_cited", "never_cited"]
CitedKind: TypeAlias = Literal["documents", "entries"]


class QueryInsight(BaseModel):
    """Searches for the same text. Upper and lower case and white space make no difference."""

    query: str = Field(description="Text of the query as last sent.")
    searches: int = Field(description="Number of searches for this text.")
    without_results: int = Field(description="Number of searches that were answered without a result.")
    failed: int = Field(description="Number of searches that were refused or could not be answered.")
    mean_results: float = Field(description="Mean number of results of answered searches; 0 if there is none.")
    mean_ms: float = Field(description="Mean duration in milliseconds.")
    max_ms: float = Field(description="Longest duration in milliseconds.")
    last_asked_at: datetime = Field(description="Time of the last search.")


class QueryInsights(BaseModel):
    model_config = example(
        {
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-31T12:00:00Z",
            "queries": [
                {
                    "query": "How many days of leave are there?",
                    "searches": 12,
                    "without_results": 0,
                    "failed": 0,
                    "mean_results": 4.8,
                    "mean_ms": 61.3,
                    "max_ms": 182.0,
                    "last_asked_at": "2026-01-31T12:00:00Z",
                }
            ],
            "total_count": 1,
        }
    )

    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    queries: list[QueryInsight]
    total_count: int = Field(description="Number of items on all pages.")


class DocumentInsight(BaseModel):
    document_id: str
    document_name: str = Field(description="Name of the document when it was last cited.")
    runs: int = Field(0, description="Number of runs that cite the document.")
    citations: int = Field(default=0, description="Number of citations in these runs.")
    last_cited_at: datetime | None = Field(
        default=None, description="Time of the last run that cites the document; null if there is none."
    )


class DocumentInsights(BaseModel):
    model_config = example(
        {
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-31T12:00:00Z",
            "documents": [
                {
                    "document_id": "handbook",
                    "document_name": "handbook.pdf",
                    "runs": 7,
                    "citations": 9,
                    "last_cited_at": "2026-01-31T12:00:00Z",
                }
            ],
            "total_count": 1,
        }
    )

    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    documents: list[DocumentInsight]
    total_count: int = Field(description="Number of items on all pages.")


class CitationInsight(BaseModel):
    """Numbers of times that runs saw and cited a document."""

    document_id: str = Field(description="Id of the document; `entry-{entry_id}` for a knowledge entry.")
    document_name: str = Field(description="Name of the document when it was last seen, or the title of the entry.")
    in_context: int = Field(
        description="How many times a model saw a passage of the document. A passage counts once in a run."
    )
    citations: int = Field(description="How many of these passages the answer of the run cites.")
    runs: int = Field(description="Number of runs that cite the document.")
    last_cited_at: datetime | None = Field(description="Time of the last answer that cites it; null if there is none.")


class CitationInsights(BaseModel):
    model_config = example(
        {
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-31T12:00:00Z",
            "documents": [
                {
                    "document_id": "handbook",
                    "document_name": "handbook.pdf",
                    "in_context": 21,
                    "citations": 9,
                    "runs": 7,
                    "last_cited_at": "2026-01-31T12:00:00Z",
                }
            ],
            "total_count": 1,
        }
    )

    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    documents: list[CitationInsight]
    total_count: int = Field(description="Number of items on all pages.")


class SearchInsight(BaseModel):
    """Searches of one group."""

    day: str | None = Field(description="Day in UTC, such as `2026-01-31`; null unless `group_by` contains `day`.")
    origin: str | None = Field(description="Kind of client; null unless `group_by` contains `origin`.")
    kb_id: str | None = Field(description="Knowledge base; null unless `group_by` contains `kb`.")
    searches: int
    without_results: int = Field(description="Number of searches that were answered without a result.")
    failed: int = Field(description="Number of searches that were refused or could not be answered.")
    mean_ms: float = Field(description="Mean duration in milliseconds.")
    mean_indexing_s: float | None = Field(
        default=None,
        description="Time that indexing a document of the knowledge base took, in seconds: the mean of the documents "
        "that were indexed last, at most a thousand. Only for the ten knowledge bases with the most searches in the "
        "answer; null for others, and without documents.",
    )


class SearchInsights(BaseModel):
    model_config = example(
        {
            "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-31T12:00:00Z",
            "groups": [
                {
                    "day": "2026-01-31",
                    "origin": None,
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "searches": 12,
                    "without_results": 1,
                    "failed": 0,
                    "mean_ms": 61.3,
                    "mean_indexing_s": 0.412,
                }
            ],
        }
    )

    since: datetime = Field(description="Beginning of the time range.")
    until: datetime = Field(description="End of the time range, excluded.")
    groups: list[SearchInsight] = Field(description="Groups in the order of day, origin and knowledge base.")
