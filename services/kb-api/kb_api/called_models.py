"""Calls models to see what they can do. A call has a few tokens, stores nothing and is charged nothing.

The calls pass neither circuit breakers nor limits: a provider that was out is asked again at once.
"""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final, TypeVar

from kb_contracts.api.llm_providers import ChatAbilities, EmbeddingAbilities, ServedModel
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatModel
from kb_shared.chat.provider import ChatProvider
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.errors import Parked, PermanentError, ProviderUnavailable
from kb_shared.mongo.vector import Vector
from kb_shared.providers.refused_options import STREAM

Answer = TypeVar("Answer")

WITHIN_S: Final = 15.0
TEXT: Final = "test"
_COMPLETION: Final = CompletionRequest(
    # Reasoning models refuse a smaller limit.
    messages=[{"role": "user", "content": TEXT}],
    max_completion_tokens=16,
)


_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "report_weather",
        "description": "Tells the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_WITH_TOOL: Final = CompletionRequest(
    messages=[{"role": "user", "content": "Call the tool report_weather for the city Lund."}],
    tools=[_TOOL],
    max_completion_tokens=200,
)
_WITH_SCHEMA: Final = CompletionRequest(
    messages=[{"role": "user", "content": 'Answer with this JSON and nothing else: {"ok": true}'}],
    schema={
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
    max_completion_tokens=200,
)


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """Outcome of a check."""

    provider: str
    model: str
    error_type: str | None
    """Stable slug; None if the provider has answered."""
    message: str | None
    duration_s: float
    abilities: ChatAbilities | None = None
    embeddings: EmbeddingAbilities | None = None
    models: Sequence[ServedModel] = ()
    """Models that a server lists."""
    advice: Sequence[str] = ()
    """Sentences about what follows from that which does not work."""


async def check_chat(
    chat: ChatProvider, model: ChatModel, provider: str, *, within_s: float = WITHIN_S
) -> ProviderCheck:
    """Ask a chat model for an answer and, if it gives one, for a call of a tool and for JSON of a schema."""
    asked = chat.complete(_COMPLETION, model=model, timeout_s=within_s)
    checked, _ = await measure(asked, provider=provider, model=model.name, within_s=within_s)
    if checked.error_type is not None:
        return checked
    called, answered = await run_all_or_cancel(
        _try(chat, each, model=model, within_s=within_s) for each in (_WITH_TOOL, _WITH_SCHEMA)
    )
    refused = {option for completion in (called, answered) if completion for option in completion.left_out}
    abilities = ChatAbilities(
        calls_tools=called is not None and any(call.name == "report_weather" for call in called.tool_calls),
        streams=called is not None and STREAM not in called.left_out,
        follows_schema=answered is not None and _follows_schema(answered.text or ""),
        max_input_tokens=model.max_input_tokens,
        refused_options=sorted(refused),
    )
    return replace(checked, abilities=abilities)


async def _try(
    chat: ChatProvider, request: CompletionRequest, *, model: ChatModel, within_s: float
) -> Completion | None:
    """Return the answer, streamed; None if there is none."""

    async def on_text(_: str) -> None:
        pass

    try:
        async with asyncio.timeout(within_s):
            return await chat.complete(request, model=model, timeout_s=within_s, on_text=on_text)
    except (TimeoutError, ProviderUnavailable, PermanentError, Parked):
        return None


def describe_vector(vector: Vector, max_input_tokens: int | None) -> EmbeddingAbilities:
    """Return what a vector says about its model."""
    return EmbeddingAbilities(dimensions=len(vector), max_input_tokens=max_input_tokens)


def _follows_schema(text: str) -> bool:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.keys() == {"ok"} and isinstance(answer["ok"], bool)


async def measure(
    call: Awaitable[Answer], *, provider: str, model: str, within_s: float = WITHIN_S
) -> tuple[ProviderCheck, Answer | None]:
    """Wait for a call to a model, and return how it ended."""
    began = perf_counter()
    error_type: str | None = None
    message: str | None = None
    answer: Answer | None = None
    try:
        async with asyncio.timeout(within_s):
            answer = await call
    except TimeoutError:
        error_type, message = "provider_timeout", f"the provider did not answer within {within_s:g} s"
    except (ProviderUnavailable, PermanentError, Parked) as error:
        # Of these errors the texts are ours: none of them quotes the provider, which may quote the key.
        error_type, message = error.error_type, str(error)
    return ProviderCheck(provider, model, error_type, message, perf_counter() - began), answer
