"""Prompts: instructions for a chat model, with the knowledge bases that it searches."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from kb_contracts.api.model import Name, ObjectId, StrictModel, example
from kb_contracts.api.prompt_injection import PromptInjection, PromptInjectionView
from kb_contracts.api.runs import AutoSearch, KbIds, ModelName
from kb_contracts.reasons.field_reasons import wrong_field
from kb_contracts.text_rules import storable

Content = Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(storable)]


_PROMPT: Final = {
    "prompt_id": "65f1c2a3b4d5e6f708192a3e",
    "name": "Answer employees",
    "content": "Answer questions of employees in two sentences.",
    "model": "gpt-4o-mini",
    "schema": None,
    "kb_id": "65f1c2a3b4d5e6f708192a3b",
    "kb_ids": ["65f1c2a3b4d5e6f708192a3b"],
    "auto_search": False,
    "injection": None,
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_by": "3f9c1d2e4b5a6978",
}


class _NamesKnowledgeBases(StrictModel):
    kb_id: ObjectId | None = Field(default=None, description="Knowledge base to search. Send either this or `kb_ids`.")
    kb_ids: KbIds | None = Field(default=None, description="Knowledge bases to search, at most 20.")

    @model_validator(mode="after")
    def _is_one_or_several(self) -> "_NamesKnowledgeBases":
        if self.kb_id is not None and self.kb_ids is not None:
            raise wrong_field("kb_ids", message="must be left out with kb_id")
        return self

    @property
    def named_kb_ids(self) -> list[str] | None:
        return [self.kb_id] if self.kb_id is not None else self.kb_ids


class CreatePrompt(_NamesKnowledgeBases):
    model_config = example(
        {
            "name": "Answer employees",
            "content": "Answer questions of employees in two sentences.",
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
        }
    )

    name: Name
    content: Content = Field(description="Instructions for the model.")
    model: ModelName | None = Field(
        default=None, description="Name of an allowed chat model. Default: that of the deployment."
    )
    # `schema` is a method of every pydantic model.
    answer_schema: dict[str, Any] | None = Field(None, alias="schema", description="JSON schema of the answer.")
    auto_search: AutoSearch = False
    injection: PromptInjection | None = Field(
        default=None, description="Template of the question, and knowledge that runs see. Default: none."
    )


class ChangePrompt(_NamesKnowledgeBases):
    """Changes of a prompt. Fields that are left out do not change."""

    model_config = example({"content": "Answer questions of employees in one sentence."})

    name: Name | None = None
    content: Content | None = Field(default=None, description="Instructions for the model.")
    model: ModelName | None = None
    answer_schema: dict[str, Any] | None = Field(
        None, alias="schema", description="JSON schema of the answer. null removes it."
    )
    auto_search: AutoSearch | None = None
    injection: PromptInjection | None = Field(
        default=None,
        description="Template of the question, and knowledge that runs see; it replaces all of the old one.",
    )


class PromptView(BaseModel):
    model_config = ConfigDict(validate_by_name=True) | example(_PROMPT)

    prompt_id: str
    name: str
    content: str = Field(description="Instructions for the model.")
    model: str = Field(description="Name of the chat model.")
    answer_schema: dict[str, Any] | None = Field(
        alias="schema", description="JSON schema of the answer; null: the answer is text."
    )
    kb_id: str | None = Field(description="Knowledge base, if the prompt was created with `kb_id`; otherwise null.")
    kb_ids: list[str] = Field(description="All knowledge bases that runs of the prompt search.")
    auto_search: AutoSearch = False
    injection: PromptInjectionView | None = Field(
        default=None, description="Template of the question, and knowledge that runs see; null: none."
    )
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(description="Id of the API key that created the prompt.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class PromptList(BaseModel):
    model_config = example({"prompts": [_PROMPT], "total_count": 1})

    prompts: list[PromptView]
    total_count: int = Field(description="Number of items on all pages.")
