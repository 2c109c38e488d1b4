"""Conversations, to which runs belong."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from kb_contracts.api.model import StrictModel
from kb_contracts.api.runs import RunSummary


class CreateThread(StrictModel):
    title: Annotated[str, Field(max_length=200)] = Field(default="", description="Title for people.")


class ThreadView(BaseModel):
    thread_id: str
    title: str
    created_at: datetime


class ThreadList(BaseModel):
    threads: list[ThreadView]
    total_count: int = Field(description="Number of items on all pages.")


class ThreadWithRuns(ThreadView):
    """A conversation with its runs."""

    runs: list[RunSummary] = Field(description="Runs of the conversation, newest first.")
    total_count: int = Field(description="Number of runs on all pages.")
