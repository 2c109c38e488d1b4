from typing import ClassVar

from pydantic import Field

from kb_shared.settings import ChatSettings, HttpSettings


class SearchSettings(ChatSettings, HttpSettings):
    uses_kafka: ClassVar[bool] = False

    search_exact_up_to_chunks: int = 10_000
    """Number of chunks of a KB up to which a query is compared with every vector. Above, the index walks its graph."""
    search_patience_s: float = 3.0
    """Time that a search waits for a failing embedding provider before it answers with an error."""
    search_vector_wait_s: float = 5.0
    """Time that a hybrid search waits for the vector of its query before it answers from the text index."""
    searches_per_minute_of_key: int = Field(default=6_000, ge=0)
    """Limit of searches. 0, here and below, means no limit."""
    searches_per_minute_of_organization: int = Field(default=30_000, ge=0)
    runs_per_minute_of_key: int = Field(default=1_200, ge=0)
    runs_per_minute_of_organization: int = Field(default=6_000, ge=0)
    run_max_tokens: int = 100_000
    """Tokens of one run, prompts and completions together."""
    run_max_output_tokens: int = Field(default=4_000, ge=1)
    """Tokens of one answer of a model that does not reason, unless its agent says otherwise."""
    run_max_spus: int = 100
    """SPUs of one run, all its searches together."""
    run_max_seconds: float = 120.0
    """Seconds of one run."""
    run_passage_tokens: int = 4_000
    """Tokens of the passages that one call of a tool returns."""
    run_document_tokens: int = 8_000
    """Tokens of the document that a run is about; the rest is left out."""

    api_url: str | None = None
    """Address of kb-api, which carries out the MCP tools that manage knowledge bases. None: there are no such tools."""
    knowledge_url: str | None = None
    """Address of kb-knowledge, which carries out the MCP tools that manage entries. None: there are no such tools."""
    insights_kept_days: int = Field(default=90, ge=1, le=3_650)
    """Days for which logged queries and rows about cited chunks are kept. It applies to rows written from now on."""

    max_prompts: int = Field(default=1_000, ge=0)
    """Limit per organization; 0, here and below: no limit."""
    max_agents: int = Field(default=1_000, ge=0)
    max_threads: int = Field(default=100_000, ge=0)
