"""Operations of an organization: open work, what is paused, what is broken."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from kb_contracts.api.llm_providers import ProviderPauseView
from kb_contracts.api.memberships import OpenJobStatus
from kb_contracts.api.model import example


class JobsOfState(BaseModel):
    state: OpenJobStatus
    count: int = Field(description="Number of documents in this state, each counted once for each knowledge base.")
    oldest_at: datetime = Field(description="Time at which the oldest of them was requested.")


class WaitingJobs(BaseModel):
    error_type: str = Field(description="What the documents wait for, as in `error.type` of a document.")
    count: int = Field(description="Number of pending documents.")


class PausedKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    paused_at: datetime


class BrokenKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    reason: str | None = Field(description="Explanation of the error.")


class MostSearchedKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    searches: int = Field(description="Number of searches; one of several knowledge bases counts in each.")


class UnusableModel(BaseModel):
    model: str = Field(
        description="Model that is not called at the moment; `queries/` and `chat/` before it: only for these."
    )
    cause: Literal["outage", "quota", "key"] = Field(
        description="`outage`: its provider is out; `quota`: the quota of its key is used up; `key`: its key is "
        "refused."
    )
    until: datetime | None = Field(description="Time of the next call; null if it can be made now.")


class OperationsView(BaseModel):
    model_config = example(
        {
            "jobs": [{"state": "pending", "count": 120, "oldest_at": "2026-01-31T12:00:00Z"}],
            "is_exact": True,
            "waiting": [{"error_type": "provider_paused", "count": 80}],
            "running_jobs": 1,
            "paused_knowledge_bases": [],
            "paused_providers": [
                {"provider": "openai", "paused_at": "2026-01-31T12:00:00Z", "paused_by": "3f9c1d2e4b5a6978"}
            ],
            "failed_knowledge_bases": [],
            "most_searched": [{"kb_id": "65f1c2a3b4d5e6f708192a3b", "name": "Handbook", "searches": 1250}],
            "unusable_models": [],
            "dead_letters": 0,
            "unsendable_messages": 0,
        }
    )

    jobs: list[JobsOfState] = Field(description="Open and failed work on documents, by state.")
    is_exact: bool = Field(description="False if there are more documents than are counted, 100,000.")
    waiting: list[WaitingJobs] = Field(
        description="Pending documents by what they wait for; others wait for their turn."
    )
    running_jobs: int = Field(description="Number of jobs that still request documents of their knowledge base.")
    paused_knowledge_bases: list[PausedKnowledgeBase]
    paused_providers: list[ProviderPauseView]
    failed_knowledge_bases: list[BrokenKnowledgeBase] = Field(description="Knowledge bases with the status `error`.")
    most_searched: list[MostSearchedKnowledgeBase] = Field(
        description="Up to five knowledge bases with the most searches of the last 7 days, of which the last 100,000 "
        "are counted; most searches first."
    )
    unusable_models: list[UnusableModel] = Field(description="Models whose provider is out, or refuses the key.")
    dead_letters: int = Field(description="Number of dead letters that were neither redriven nor discarded.")
    unsendable_messages: int = Field(description="Number of messages that Kafka has refused.")


class OperationCounts(BaseModel):
    model_config = example({"dead_letters": 2, "failed_documents": 1, "is_exact": True})

    dead_letters: int = Field(description="Number of dead letters that were neither redriven nor discarded.")
    failed_documents: int = Field(
        description="Number of documents that could not be indexed, each counted once for each knowledge base."
    )
    is_exact: bool = Field(description="False if there are more of one kind than are counted, 1,000.")
