"""Explanations of why a document is, or is not, among the results of a search."""

from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from kb_contracts.api.model import example
from kb_contracts.api.search import SearchRequest
from kb_contracts.identifiers import Identifier

MAX_RANK: Final = 10_000
"""Greatest rank that is told: an index returns no more."""

AbsenceReason: TypeAlias = Literal[
    "in_results",
    "not_in_knowledge_base",
    "not_searchable_yet",
    "filtered_out",
    "below_min_score",
    "not_found",
    "beyond_page",
]


class ExplainSearchRequest(SearchRequest):
    """A search, and the document to explain it for."""

    model_config = example({"query": "How many days of leave are there?", "document_id": "handbook"})

    document_id: Identifier = Field(description="Document to explain the search for.")


class LegRank(BaseModel):
    """Position of the best chunk of the document among all chunks of the knowledge base, without filter and limit."""

    rank: int | None = Field(description="Rank from 1; null if the chunk was not found, or has a rank above 10,000.")
    score: float | None = Field(description="Score of the chunk in this ranking; null if it was not found.")


class SearchExplanationView(BaseModel):
    model_config = example(
        {
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "document_id": "handbook",
            "reason": "beyond_page",
            "detail": "Its best chunk is behind the results of this page. Ask for more results with top_k or skip.",
            "position": None,
            "filtered_out_by": [],
            "vector": {"rank": 9, "score": 0.71},
            "text": {"rank": 14, "score": 2.3},
            "fused": {"rank": 11, "score": 0.029},
            "relevance": 0.71,
            "min_score": None,
            "spu_charged": 0,
        }
    )

    kb_id: str
    document_id: str
    reason: AbsenceReason = Field(
        description="First that applies: `in_results`; `not_in_knowledge_base`; `filtered_out`: `filtered_out_by` says "
        "by what; `not_searchable_yet`: it is indexed, and the search indexes do not have it yet; `not_found`: it has "
        "no words of the query; `below_min_score`; `beyond_page`: others are better."
    )
    detail: str = Field(description="Explanation in words, and what to do.")
    position: int | None = Field(description="Position of its first match on the page, from 1; null if it has none.")
    filtered_out_by: list[str] = Field(description="Conditions of the request that no chunk of the document meets.")
    vector: LegRank | None = Field(description="Rank by meaning; null with mode `text` or without a vector.")
    text: LegRank | None = Field(description="Rank by words; null with mode `vector`.")
    fused: LegRank | None = Field(
        description="Rank after fusion of both; null if neither ranking has the document. A search fuses the best "
        "chunks only, so its order can differ."
    )
    relevance: float | None = Field(description="Relevance of the best chunk by meaning; null if it is not known.")
    min_score: float | None = Field(description="Minimum of relevance that applied; null if there is none.")
    spu_charged: int = Field(description="SPUs charged for embedding the query; 0 if its vector was cached.")
