"""Batches of actions on knowledge bases: each one has an outcome of its own."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.batches import MAX_BATCHED, DescribedAs, RefusedEntry
from kb_contracts.api.knowledge_bases import KnowledgeBaseTagIds
from kb_contracts.api.model import StrictModel, example

KnowledgeBaseAction = Literal["pause", "resume", "reindex", "retry_failed"]


class BatchedAction(StrictModel):
    """An action on one knowledge base, as the call of this name carries it out."""

    kb_id: str
    action: KnowledgeBaseAction


class BatchedTagsOfKnowledgeBase(StrictModel):
    """New tags of one knowledge base, as `PUT /knowledge-bases/{kb_id}` changes them."""

    model_config = example({"kb_id": "65f1c2a3b4d5e6f708192a3b", "action": "replace_tags", "tag_ids": ["hr", "law"]})

    kb_id: str
    action: Literal["replace_tags"]
    tag_ids: KnowledgeBaseTagIds


UncheckedAction = Annotated[Any, DescribedAs(BatchedAction | BatchedTagsOfKnowledgeBase)]


class BatchOfActions(StrictModel):
    """Actions on knowledge bases. They can be sent again: what has been carried out is not begun twice."""

    model_config = example(
        {
            "entries": [
                {"kb_id": "65f1c2a3b4d5e6f708192a3b", "action": "pause"},
                {"kb_id": "65f1c2a3b4d5e6f708192a3d", "action": "retry_failed"},
                {"kb_id": "65f1c2a3b4d5e6f708192a3c", "action": "replace_tags", "tag_ids": ["hr", "law"]},
            ]
        }
    )

    entries: Annotated[list[UncheckedAction], Field(min_length=1, max_length=MAX_BATCHED)]


class ActionOutcome(BaseModel):
    """Outcome of one action: it was carried out, or there is a `problem`."""

    kb_id: str | None = Field(description="Id of the knowledge base; null if the entry has no usable one.")
    job_id: str | None = Field(
        description="Id of the job that `reindex` or `retry_failed` started, or found running; null if there is none."
    )
    message: str | None = Field(description="Description of what happens for people; null if it was refused.")
    problem: RefusedEntry | None = Field(description="Problem of the action; null if it was carried out.")


class ActionOutcomes(BaseModel):
    model_config = example(
        {
            "accepted_count": 1,
            "refused_count": 1,
            "outcomes": [
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "job_id": None,
                    "message": "Nothing more is indexed until it is resumed.",
                    "problem": None,
                },
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3d",
                    "job_id": None,
                    "message": None,
                    "problem": {
                        "status": 404,
                        "type": "not-found",
                        "detail": "There is no such knowledge base.",
                        "fields": None,
                    },
                },
            ],
        }
    )

    accepted_count: int
    refused_count: int
    outcomes: list[ActionOutcome] = Field(description="Outcomes in the order of the entries.")
