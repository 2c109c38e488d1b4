"""What is said to a chat model and what it says: values that know nothing of LiteLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""As OpenAI has it: `role`, `content`, `tool_calls`, `tool_call_id`."""
Tool: TypeAlias = Mapping[str, Any]
"""As OpenAI has it: `{"type": "function", "function": {"name", "description", "parameters"}}`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    call_id: str
    name: str
    arguments: str
    """As the model wrote them: should be a JSON object."""


@dataclass(frozen=True, slots=True)
class Completion:
    text: str | None
    tool_calls: Sequence[ToolCall]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """None where the prices of the model are not known."""
    tokens_are_counted: bool
    """By the provider; else they are estimated here, because it said nothing."""
    is_cut: bool
    """The model came to the end of what it may say."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a model."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must follow, asked for where the model takes one."""
    max_completion_tokens: int | None = None
