"""Requests to a chat model and its answers: values that know nothing of LiteLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""Message in OpenAI's form: `role`, `content`, `tool_calls`, `tool_call_id`."""
Tool: TypeAlias = Mapping[str, Any]
"""Tool in OpenAI's form: `{"type": "function", "function": {"name", "description", "parameters"}}`."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    call_id: str
    name: str
    arguments: str
    """Arguments as the model wrote them: should be a JSON object."""


@dataclass(frozen=True, slots=True)
class Completion:
    text: str | None
    tool_calls: Sequence[ToolCall]
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """Cost in USD; None if the prices of the model are not known."""
    tokens_are_counted: bool
    """True if the provider counted the tokens; otherwise they are estimated here."""
    is_cut: bool
    """True if the model came to the end of what it may say."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One call of a model."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must follow, asked for where the model takes one."""
    max_completion_tokens: int | None = None
    """Tokens that the model may write, its reasoning included."""
