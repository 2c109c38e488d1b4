"""Responses about runs."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from kb_search.store.runs import Run


class CitationView(BaseModel):
    """A passage that the answer cites as `[number]`. A search of this run returned it."""

    number: int = Field(description="Number of the citation in the answer, `[number]`.")
    citation: str = Field(
        description="Stable id of the passage: it means the same text, even after the document has changed."
    )
    kb_id: str
    document_id: str
    source: str = Field(description="Name of the document.")
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    page_start: int | None = Field(description="First page of the passage; null if there are no pages.")
    page_end: int | None = Field(description="Last page of the passage; null if there are no pages.")
    relevance: float | None = Field(description="Relevance from 0 to 1; null if no vectors were compared.")


class RunSummary(BaseModel):
    run_id: str
    thread_id: str | None = Field(description="Conversation of the run; null if it has none.")
    prompt_id: str | None = Field(description="Prompt of the run; null if it has none.")
    agent_id: str | None = Field(description="Agent of the run; null if it has none.")
    document_id: str | None = Field(description="Document that the run is about; null if it is about none.")
    document_name: str | None = Field(description="Name of the document at the time of the run.")
    document_truncated: bool = Field(
        description="Whether the model saw only the beginning of the text of the document."
    )
    key_id: str = Field(description="Id of the API key that started the run.")
    model: str = Field(description="Name of the chat model.")
    status: str = Field(
        description="`running`, `completed`, `failed`, `cancelled`, or `lost` if the process ended before the run."
    )
    question: list[dict[str, Any]] = Field(description="Messages that the caller sent.")
    answer: str | None = Field(description="Answer of the model; null if there is none.")
    error: dict[str, Any] | None = Field(description="`type` and `detail` of the error; null if there is none.")
    citations: list[CitationView] = Field(description="Passages that the answer cites.")
    dropped_citations: int = Field(
        description="Number of citations that were removed because no passage of the run has their id."
    )
    iterations: int = Field(description="Number of calls of the model.")
    prompt_tokens: int = Field(description="Number of tokens of all prompts.")
    completion_tokens: int = Field(description="Number of tokens of all completions.")
    cost_usd: float | None = Field(description="Cost of the model in US dollars; null if its price is not known.")
    spus: int = Field(description="SPUs charged for the searches of the run.")
    started_at: datetime
    finished_at: datetime | None = Field(description="End of the run; null while it is running.")

    @classmethod
    def from_run(cls, run: Run) -> "RunSummary":
        return cls(
            **{name: getattr(run, name) for name in RunSummary.model_fields if name != "citations"},
            citations=[CitationView(**asdict(each)) for each in run.citations],
        )


class RunView(RunSummary):
    """A run with all messages and tool calls."""

    messages: list[dict[str, Any]] = Field(description="All messages exchanged with the model.")
    tool_calls: list[dict[str, Any]] = Field(description="Calls of tools, with arguments and results.")

    @classmethod
    def from_run(cls, run: Run) -> "RunView":
        summary = RunSummary.from_run(run).model_dump()
        return cls(**summary, messages=run.messages, tool_calls=run.tool_calls)


class RunList(BaseModel):
    runs: list[RunSummary]
    total_count: int = Field(description="Number of items on all pages.")
