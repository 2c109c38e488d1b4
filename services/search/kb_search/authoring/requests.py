"""What may be said of prompts, agents and their tools over HTTP."""

from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, model_validator

from kb_contracts.documents import Text
from kb_search.retrieval.query import MAX_TOP_K
from kb_search.runs.run_request import KbIds, MaxIterations, ModelName, ObjectId
from kb_shared.http.model import Model

MAX_TOOLS: Final = 20

Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
]
Content = Annotated[Text, Field(min_length=1, max_length=100_000)]
Instructions = Annotated[Text, Field(max_length=100_000)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
ToolDescription = Annotated[Text, Field(min_length=1, max_length=1_000)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
MinScore = Annotated[float, Field(ge=0, le=1)]


class _NamesKnowledgeBases(Model):
    kb_id: ObjectId | None = None
    kb_ids: KbIds | None = None

    @model_validator(mode="after")
    def _is_one_or_several(self) -> "_NamesKnowledgeBases":
        if self.kb_id is not None and self.kb_ids is not None:
            raise ValueError("give kb_id or kb_ids, not both")
        return self

    @property
    def named_kb_ids(self) -> list[str] | None:
        return [self.kb_id] if self.kb_id is not None else self.kb_ids


class CreatePrompt(_NamesKnowledgeBases):
    name: Name
    content: Content
    model: ModelName | None = None
    # `schema` is a method of every pydantic model.
    answer_schema: dict[str, Any] | None = Field(None, alias="schema", description="JSON schema of the answer.")


class ChangePrompt(_NamesKnowledgeBases):
    """Changes. Fields that are left out stay as they are."""

    name: Name | None = None
    content: Content | None = None
    model: ModelName | None = None
    answer_schema: dict[str, Any] | None = Field(None, alias="schema")


class CreateAgent(Model):
    name: Name
    instructions: Instructions = ""
    model: ModelName | None = None
    max_iterations: MaxIterations | None = None


class ChangeAgent(Model):
    """Changes. Fields that are left out stay as they are."""

    name: Name | None = None
    instructions: Instructions | None = None
    model: ModelName | None = None
    max_iterations: MaxIterations | None = None


class AddTool(Model):
    """With `kb_id` alone the tool is made up from the KB's name."""

    kb_id: ObjectId
    tool_name: ToolName | None = None
    tool_description: ToolDescription | None = None
    default_top_k: TopK = 5
    default_min_score: MinScore | None = None


class ChangeTool(Model):
    """Changes. Fields that are left out stay as they are; a `default_min_score` of null removes the minimum."""

    tool_name: ToolName | None = None
    tool_description: ToolDescription | None = None
    default_top_k: TopK | None = None
    default_min_score: MinScore | None = None


class ChangeNamedTool(ChangeTool):
    tool_id: ObjectId
