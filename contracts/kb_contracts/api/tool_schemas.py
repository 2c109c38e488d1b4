"""Function-calling schemas, ready to paste into a call of a chat model."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class ToolFunctionView(BaseModel):
    name: str = Field(description="Name of the tool, from the name of the knowledge base.")
    description: str = Field(description="Description for the model.")
    parameters: dict[str, Any] = Field(description="JSON Schema of the arguments.")


class ToolSchemaView(BaseModel):
    """Tool that searches one knowledge base, as an entry of `tools` of a chat completion."""

    type: Literal["function"]
    function: ToolFunctionView
