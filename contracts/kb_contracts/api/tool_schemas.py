"""Function-calling schemas, ready to paste into a call of a chat model."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import example


class ToolFunctionView(BaseModel):
    name: str = Field(description="Name of the tool, from the name of the knowledge base.")
    description: str = Field(description="Description for the model.")
    parameters: dict[str, Any] = Field(description="JSON Schema of the arguments.")


class ToolSchemaView(BaseModel):
    """Tool that searches one knowledge base, as an entry of `tools` of a chat completion."""

    model_config = example(
        {
            "type": "function",
            "function": {
                "name": "search_handbook",
                "description": "Searches the knowledge base Handbook: rules for all employees.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string", "description": "What to search for."}},
                    "required": ["query"],
                },
            },
        }
    )

    type: Literal["function"]
    function: ToolFunctionView
