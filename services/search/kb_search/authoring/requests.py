"""Request bodies for prompts, agents and their tools."""

from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, model_validator

from kb_contracts.documents import Text
from kb_search.retrieval.query import MAX_TOP_K
from kb_search.runs.run_request import KbIds, MaxIterations, ModelName, ObjectId
from kb_shared.http.model import MinScore, Name, StrictModel

MAX_TOOLS: Final = 20

Content = Annotated[Text, Field(min_length=1, max_length=100_000)]
Instructions = Annotated[Text, Field(max_length=100_000)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
ToolDescription = Annotated[Text, Field(min_length=1, max_length=1_000)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]


class _NamesKnowledgeBases(StrictModel):
    kb_id: ObjectId | None = Field(default=None, description="Knowledge base to search. Send either this or `kb_ids`.")
    kb_ids: KbIds | None = Field(default=None, description="Knowledge bases to search, at most 20.")

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
    content: Content = Field(description="Instructions for the model.")
    model: ModelName | None = Field(
        default=None, description="Name of an allowed chat model. Default: that of the deployment."
    )
    # `schema` is a method of every pydantic model.
    answer_schema: dict[str, Any] | None = Field(None, alias="schema", description="JSON schema of the answer.")


class ChangePrompt(_NamesKnowledgeBases):
    """Changes of a prompt. Fields that are left out do not change."""

    name: Name | None = None
    content: Content | None = Field(default=None, description="Instructions for the model.")
    model: ModelName | None = None
    answer_schema: dict[str, Any] | None = Field(
        None, alias="schema", description="JSON schema of the answer. null removes it."
    )


class CreateAgent(StrictModel):
    name: Name
    instructions: Instructions = Field(default="", description="Instructions for the model.")
    model: ModelName | None = Field(
        default=None, description="Name of an allowed chat model. Default: that of the deployment."
    )
    max_iterations: MaxIterations | None = Field(
        default=None, description="Greatest number of calls of the model in a run."
    )


class ChangeAgent(StrictModel):
    """Changes of an agent. Fields that are left out do not change."""

    name: Name | None = None
    instructions: Instructions | None = Field(default=None, description="Instructions for the model.")
    model: ModelName | None = None
    max_iterations: MaxIterations | None = Field(
        default=None, description="Greatest number of calls of the model in a run."
    )


class AddTool(StrictModel):
    """A tool that searches a knowledge base. By default its name and description are made from that of the base."""

    kb_id: ObjectId
    tool_name: ToolName | None = Field(
        default=None,
        description="Name by which the model calls the tool. Default: `search_` and the name of the knowledge base.",
    )
    tool_description: ToolDescription | None = Field(
        default=None,
        description="Description of the tool for the model. Default: made from the name of the knowledge base.",
    )
    default_top_k: TopK = Field(
        default=5, description="Number of matches of a search, unless the model asks for another."
    )
    default_min_score: MinScore | None = Field(
        default=None, description="Smallest relevance of a match. Default: that of the knowledge base."
    )


class ChangeTool(StrictModel):
    """Changes of a tool. Fields that are left out do not change."""

    tool_name: ToolName | None = Field(default=None, description="Name by which the model calls the tool.")
    tool_description: ToolDescription | None = Field(default=None, description="Description of the tool for the model.")
    default_top_k: TopK | None = Field(
        default=None, description="Number of matches of a search, unless the model asks for another."
    )
    default_min_score: MinScore | None = Field(
        default=None, description="Smallest relevance of a match. null removes it."
    )


class ChangeNamedTool(ChangeTool):
    tool_id: ObjectId
