"""Conversations, to which runs belong."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, StrictModel, example
from kb_contracts.api.runs import RunSummary

_THREAD: Final = {"thread_id": "65f1c2a3b4d5e6f708192a43", "title": "Leave", "created_at": "2026-01-31T12:00:00Z"}


class CreateThread(StrictModel):
    model_config = example({"title": "Leave"})

    title: Annotated[str, Field(max_length=200)] = Field(default="", description="Title for people.")


class ThreadView(BaseModel):
    model_config = example(_THREAD)

    thread_id: str
    title: str
    created_at: datetime


class ThreadList(BaseModel):
    model_config = example({"threads": [_THREAD], "total_count": 1, "next_cursor": None})

    threads: list[ThreadView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class RunOfThread(RunSummary):
    """A run of a conversation."""

    tool_calls: list[dict[str, Any]] | None = Field(
        default=None, description="Calls of tools, with arguments and results; null if they were not asked for."
    )


class ThreadWithRuns(ThreadView):
    """A conversation with its runs."""

    model_config = example({**_THREAD, "runs": [], "total_count": 0})

    runs: list[RunOfThread] = Field(description="Runs of the conversation, newest first.")
    total_count: int = Field(description="Number of runs on all pages.")
