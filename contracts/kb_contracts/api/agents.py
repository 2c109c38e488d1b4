"""Agents: instructions and tools of a chat model."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, StringConstraints

from kb_contracts.api.model import MinScore, Name, ObjectId, StrictModel
from kb_contracts.api.runs import MaxIterations, ModelName
from kb_contracts.api.search import MAX_TOP_K
from kb_contracts.documents import Text

MAX_TOOLS: Final = 20

Instructions = Annotated[Text, Field(max_length=100_000)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
ToolDescription = Annotated[Text, Field(min_length=1, max_length=1_000)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]


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


class ToolView(BaseModel):
    tool_id: str
    type: Literal["knowledge_base"] = Field(description="Kind of tool. Further kinds may be added.")
    kb_id: str
    kb_name: str | None = Field(
        description="Name of the knowledge base, or its last name if it was deleted; null if that name was not "
        "recorded."
    )
    tool_name: str = Field(description="Name by which the model calls the tool.")
    tool_description: str = Field(description="Description of the tool for the model.")
    default_top_k: int = Field(description="Number of matches of a search, unless the model asks for another.")
    default_min_score: float | None = Field(
        description="Smallest relevance of a match; null: as the knowledge base says."
    )
    is_broken: bool = Field(
        description="Whether the knowledge base was deleted. Calls of the tool then return an error to the model."
    )


class AgentView(BaseModel):
    agent_id: str
    name: str
    instructions: str = Field(description="Instructions for the model.")
    model: str = Field(description="Name of the chat model.")
    max_iterations: int | None = Field(
        description="Greatest number of calls of the model in a run; null: that of the deployment."
    )
    tools: list[ToolView]
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(description="Id of the API key that created the agent.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class AgentList(BaseModel):
    agents: list[AgentView]
    total_count: int = Field(description="Number of items on all pages.")


class AvailableKnowledgeBase(BaseModel):
    kb_id: str
    name: str
    description: str
    status: str
    document_count: int = Field(description="Number of indexed documents.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    is_linked: bool = Field(description="Whether it is a tool of this agent already.")


class AvailableKnowledgeBases(BaseModel):
    knowledge_bases: list[AvailableKnowledgeBase]
