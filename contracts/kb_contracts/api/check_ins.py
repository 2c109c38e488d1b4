"""Check-ins: texts that a chat model turned into knowledge, with what came of them."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from kb_contracts.api.knowledge_imports import ImportReport
from kb_contracts.api.model import NextCursor, StrictModel, example
from kb_contracts.api.runs import ModelName
from kb_contracts.knowledge.import_document import SkippedItem
from kb_contracts.text_rules import storable

MAX_TEXT_CHARACTERS: Final = 50_000
DEFAULT_RETRIES: Final = 2

CheckInState = Literal["proposed", "applied"]

_SUMMARY: Final = {
    "check_in_id": "65f1c2a3b4d5e6f708192a71",
    "state": "proposed",
    "excerpt": "Alice specializes in LES.",
    "model": "gpt-4o-mini",
    "answers": 1,
    "prompt_tokens": 812,
    "completion_tokens": 164,
    "cost_usd": 0.00022,
    "warning_count": 0,
    "created_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "applied_at": None,
}


def _with_visible_text(text: str) -> str:
    if not text.strip():
        raise ValueError("must contain at least one visible character")
    return text


class StructureText(StrictModel):
    """A text to turn into knowledge."""

    model_config = example({"text": "Alice specializes in LES. She initializes it from converged RANS."})

    text: Annotated[
        str,
        StringConstraints(min_length=1, max_length=MAX_TEXT_CHARACTERS),
        AfterValidator(storable),
        AfterValidator(_with_visible_text),
    ] = Field(description="Notes as people write them. The model takes them as data, not as instructions.")
    model: ModelName | None = Field(
        default=None, description="Name of an allowed chat model. Default: that of the deployment."
    )
    max_retries: Annotated[int, Field(ge=0, le=5)] = Field(
        default=DEFAULT_RETRIES,
        description="How often the model is told what is wrong with its answer, and asked again.",
    )
    apply: bool = Field(default=False, description="Whether the proposal is imported at once.")


class CheckInSummary(BaseModel):
    model_config = example(_SUMMARY)

    check_in_id: str
    state: CheckInState
    excerpt: str = Field(description="Beginning of the text.")
    model: str
    answers: int = Field(description="Number of answers of the model, with those that were not usable.")
    prompt_tokens: int = Field(description="Tokens of all prompts.")
    completion_tokens: int = Field(description="Tokens of all answers.")
    cost_usd: float | None = Field(description="Cost in US dollars; null if the price of the model is not known.")
    warning_count: int
    created_at: datetime
    created_by: str = Field(description="Id of the API key of the author.")
    applied_at: datetime | None


class CheckInView(CheckInSummary):
    model_config = example(
        {
            **_SUMMARY,
            "text": "Alice specializes in LES.",
            "proposal": {"metadata": {"user:alice": {"entity_type": "user", "properties": {"specialization": "LES"}}}},
            "warnings": [],
            "artifacts": None,
        }
    )

    text: str
    proposal: dict[str, Any] = Field(
        description="Document as `POST /knowledge:import` takes it, without invalid items."
    )
    warnings: list[SkippedItem] = Field(description="Items of the model's last answer that are not in the proposal.")
    artifacts: ImportReport | None = Field(description="What applying the proposal has loaded; null before.")


class CheckInList(BaseModel):
    model_config = example({"check_ins": [_SUMMARY], "total_count": 1, "next_cursor": None})

    check_ins: list[CheckInSummary]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
