"""The OpenAI chat completions API on the wire: what a request may say, whole answers and streamed ones."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb_contracts.reasons.field_reasons import reasons
from kb_local.model_server.openai_api import OpenAIError


class ChatRequest(BaseModel):
    """The body of `POST /v1/chat/completions`; what the models here make no use of is taken and ignored."""

    model_config = ConfigDict(frozen=True)

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a request.

        Raises:
            OpenAIError: 400; says which field is wrong and never repeats what it held.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as invalid:
            first = reasons(invalid, cls)[0]
            name = first.field.partition(".")[0] or "body"
            raise OpenAIError(400, f"{first.field or name!r}: {first.message}.", param=name) from None

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the answer, if there is one."""
        if (self.response_format or {}).get("type") != "json_schema":
            return None
        described = (self.response_format or {}).get("json_schema") or {}
        schema = described.get("schema")
        return schema if isinstance(schema, dict) else {}

    @property
    def wants_usage(self) -> bool:
        return bool((self.stream_options or {}).get("include_usage"))

    @property
    def words(self) -> int:
        """Count the words of the prompt, as its tokens."""
        return sum(len(text_of(message).split()) for message in self.messages)

    def last(self, role: str) -> str:
        """Return the text of the last message of a role; "" if there is none."""
        return next((text_of(each) for each in reversed(self.messages) if each.get("role") == role), "")

    def after_last(self, role: str) -> list[dict[str, Any]]:
        """Return the messages that follow the last one of a role."""
        positions = [number for number, each in enumerate(self.messages) if each.get("role") == role]
        return self.messages[positions[-1] + 1 :] if positions else list(self.messages)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class RequestedToolCall:
    call_id: str
    name: str
    arguments: str
    """JSON, or what a bad model takes for it."""

    def body(self) -> dict[str, Any]:
        return {
            "id": self.call_id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(frozen=True, slots=True)
class ChatReply:
    text: str | None = None
    tool_calls: Sequence[RequestedToolCall] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_cut: bool = False
    """True if the answer reached its limit of tokens."""

    @property
    def finish_reason(self) -> str:
        if self.is_cut:
            return "length"
        return "tool_calls" if self.tool_calls else "stop"

    @property
    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


def chat_body(model: str, reply: ChatReply) -> dict[str, Any]:
    """Return the whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [call.body() for call in reply.tool_calls]
    return {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": reply.usage,
    }


def encoded(body: dict[str, Any]) -> str:
    """Encode as ASCII JSON, which can also represent lone surrogates."""
    return json.dumps(body)


def chat_events(request: ChatRequest, reply: ChatReply) -> Iterator[str]:
    """Return the same answer as server-sent events: a few words each, then calls, end, and usage if asked."""
    yield _event(request.model, {"role": "assistant", "content": ""})
    for piece in _pieces(reply.text or ""):
        yield _event(request.model, {"content": piece})
    for index, call in enumerate(reply.tool_calls):
        yield _event(request.model, {"tool_calls": [{"index": index, **call.body()}]})
    yield _event(request.model, {}, finish_reason=reply.finish_reason)
    if request.wants_usage:
        yield _data({**_envelope(request.model), "choices": [], "usage": reply.usage})
    yield "data: [DONE]\n\n"


WORDS_AT_ONCE = 4
_SECOND_HALF = re.compile("(?=[\udc00-\udfff])")
"""Half of a surrogate pair: it comes in a piece of its own."""


def _pieces(text: str) -> Iterator[str]:
    words = text.split(" ")
    for start in range(0, len(words), WORDS_AT_ONCE):
        piece = " ".join(words[start : start + WORDS_AT_ONCE])
        more = start + WORDS_AT_ONCE < len(words)
        if piece or more:
            yield from _SECOND_HALF.split(piece + (" " if more else ""))


def _event(model: str, delta: dict[str, Any], *, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _data({**_envelope(model), "choices": [choice]})


def _envelope(model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-local", "object": "chat.completion.chunk", "created": 0, "model": model}


def _data(body: dict[str, Any]) -> str:
    return f"data: {encoded(body)}\n\n"
