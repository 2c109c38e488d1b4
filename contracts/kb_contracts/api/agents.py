"""Agents: instructions and tools of a chat model."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from kb_contracts.api.model import MinScore, Name, ObjectId, StrictModel, example
from kb_contracts.api.prompt_injection import PromptInjection, PromptInjectionView
from kb_contracts.api.runs import AutoSearch, MaxIterations, MaxOutputTokens, ModelName, Temperature
from kb_contracts.api.search import MAX_TOP_K
from kb_contracts.text_rules import storable

MAX_TOOLS: Final = 20

Instructions = Annotated[str, Field(max_length=100_000), AfterValidator(storable)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,64}$")]
ToolDescription = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(storable)]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]


_AGENT: Final = {
    "agent_id": "65f1c2a3b4d5e6f708192a3f",
    "name": "Support",
    "instructions": "Search before you answer.",
    "model": "gpt-4o-mini",
    "max_iterations": None,
    "auto_search": False,
    "temperature": None,
    "max_output_tokens": None,
    "injection": None,
    "tools": [
        {
            "tool_id": "65f1c2a3b4d5e6f708192a41",
            "type": "knowledge_base",
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "kb_name": "Handbook",
            "tool_name": "search_handbook",
            "tool_description": "Search Handbook knowledge base",
            "default_top_k": 5,
            "default_min_score": None,
            "is_broken": False,
        }
    ],
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_by": "3f9c1d2e4b5a6978",
}


class CreateAgent(StrictModel):
    model_config = example({"name": "Support", "instructions": "Search before you answer."})

    name: Name
    instructions: Instructions = Field(default="", description="Instructions for the model.")
    model: ModelName | None = Field(
        default=None, description="Name of an allowed chat model. Default: that of the deployment."
    )
    max_iterations: MaxIterations | None = Field(
        default=None, description="Greatest number of calls of the model in a run."
    )
    auto_search: AutoSearch = False
    temperature: Temperature | None = None
    max_output_tokens: MaxOutputTokens | None = None
    injection: PromptInjection | None = Field(
        default=None, description="Template of the question, and knowledge that runs see. Default: none."
    )


class ChangeAgent(StrictModel):
    """Changes of an agent. Fields that are left out do not change."""

    model_config = example({"max_iterations": 5})

    name: Name | None = None
    instructions: Instructions | None = Field(default=None, description="Instructions for the model.")
    model: ModelName | None = None
    max_iterations: MaxIterations | None = Field(
        default=None, description="Greatest number of calls of the model in a run."
    )
    auto_search: AutoSearch | None = None
    temperature: Temperature | None = None
    max_output_tokens: MaxOutputTokens | None = None
    injection: PromptInjection | None = Field(
        default=None,
        description="Template of the question, and knowledge that runs see; it replaces all of the old one.",
    )


class AddTool(StrictModel):
    """A tool that searches a knowledge base. By default its name and description are made from that of the base."""

    model_config = example({"kb_id": "65f1c2a3b4d5e6f708192a3b"})

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

    model_config = example({"default_top_k": 10})

    tool_name: ToolName | None = Field(default=None, description="Name by which the model calls the tool.")
    tool_description: ToolDescription | None = Field(default=None, description="Description of the tool for the model.")
    default_top_k: TopK | None = Field(
        default=None, description="Number of matches of a search, unless the model asks for another."
    )
    default_min_score: MinScore | None = Field(
        default=None, description="Smallest relevance of a match. null removes it."
    )


class ChangeNamedTool(ChangeTool):
    model_config = example({"tool_id": "65f1c2a3b4d5e6f708192a41", "default_top_k": 10})

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
    model_config = example(_AGENT)

    agent_id: str
    name: str
    instructions: str = Field(description="Instructions for the model.")
    model: str = Field(description="Name of the chat model.")
    max_iterations: int | None = Field(
        description="Greatest number of calls of the model in a run; null: that of the deployment."
    )
    auto_search: AutoSearch = False
    temperature: Temperature | None = None
    max_output_tokens: MaxOutputTokens | None = None
    injection: PromptInjectionView | None = Field(
        default=None, description="Template of the question, and knowledge that runs see; null: none."
    )
    tools: list[ToolView]
    created_at: datetime
    updated_at: datetime
    created_by: str = Field(description="Id of the API key that created the agent.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class AgentList(BaseModel):
    model_config = example({"agents": [_AGENT], "total_count": 1})

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
    model_config = example(
        {
            "knowledge_bases": [
                {
                    "kb_id": "65f1c2a3b4d5e6f708192a3b",
                    "name": "Handbook",
                    "description": "Rules for employees.",
                    "status": "active",
                    "document_count": 42,
                    "chunk_count": 1250,
                    "is_linked": True,
                }
            ]
        }
    )

    knowledge_bases: list[AvailableKnowledgeBase]
