"""What is answered about runs over HTTP."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from kb_search.store.runs import Run


class CitationView(BaseModel):
    """A passage that the answer cites as `[number]`; a search of this run returned it."""

    number: int
    citation: str = Field(description="Names this passage for good: the same text, also after the document changed.")
    kb_id: str
    document_id: str
    source: str = Field(description="Name of the document.")
    chunk_index: int
    page_start: int | None
    page_end: int | None
    relevance: float | None


class RunSummary(BaseModel):
    run_id: str
    thread_id: str | None
    prompt_id: str | None
    agent_id: str | None
    document_id: str | None = Field(description="That the run is about.")
    document_name: str | None = Field(description="As it was then.")
    document_truncated: bool = Field(description="The model saw only the beginning of the document's text.")
    key_id: str
    model: str
    status: str
    question: list[dict[str, Any]]
    answer: str | None
    error: dict[str, Any] | None
    citations: list[CitationView]
    dropped_citations: int = Field(description="Citations of the answer that no passage of this run has.")
    iterations: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = Field(description="Of the model; null where its prices are not known.")
    spus: int
    started_at: datetime
    finished_at: datetime | None

    @classmethod
    def from_run(cls, run: Run) -> "RunSummary":
        return cls(
            **{name: getattr(run, name) for name in RunSummary.model_fields if name != "citations"},
            citations=[CitationView(**each) for each in run.citations],
        )


class RunView(RunSummary):
    """The whole story."""

    messages: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]

    @classmethod
    def from_run(cls, run: Run) -> "RunView":
        summary = RunSummary.from_run(run).model_dump()
        return cls(**summary, messages=run.messages, tool_calls=run.tool_calls)


class RunList(BaseModel):
    runs: list[RunSummary]
    total_count: int
