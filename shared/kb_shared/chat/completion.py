"""Requests to a chat model and its answers: values that know nothing of LiteLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

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
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the provider that go back to it with the call, such as the signature of a thought."""


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
    returned: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the message that go back to the provider with its calls, and nowhere else: thoughts, `content`."""
    left_out: frozenset[str] = frozenset()
    """Options of the request that the server refuses, and was asked without."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One call of a model."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must follow, asked for where the model takes one."""
    max_completion_tokens: int | None = None
    """Tokens that the model may write, its reasoning included."""
    temperature: float | None = None
    """Temperature of the model; None: its own."""

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]


_STORED_FIELDS: Final = ("role", "content", "name", "tool_call_id")
_STORED_FIELDS_OF_CALLS: Final = ("id", "type", "function")


def without_thoughts(message: Message) -> dict[str, Any]:
    """Return a message as it may be stored and shown: without what only its provider may see."""
    kept = {name: message[name] for name in _STORED_FIELDS if name in message}
    if isinstance(kept.get("content"), list):
        kept["content"] = "".join(part.get("text") or "" for part in kept["content"] if part.get("type") == "text")
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [{name: call[name] for name in _STORED_FIELDS_OF_CALLS if name in call} for call in calls]
    return kept
