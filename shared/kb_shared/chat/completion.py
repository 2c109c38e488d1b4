"""Requests to a chat model and its answers: values that know nothing of LiteLLM."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""Message in OpenAI's form: `role`, `content`, `tool_calls`, `tool_call_id`."""
Tool: TypeAlias = Mapping[str, Any]
"""Tool in OpenAI's form: `{"type": "function", "function": {"name", "description", "parameters"}}`."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def whole_characters(text: str) -> str:
    """Return `text` with surrogate pairs joined to their character, and single halves replaced.

    JSON can say half of a pair, so models do; nothing here can store or send one.
    """
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class WholeCharacters:
    """The same for a text that comes in pieces: the first half of a pair waits for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return whole_characters(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return whole_characters(self._half)


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
