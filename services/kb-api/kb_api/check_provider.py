"""Finds out whether a provider answers an organization, with one call that costs a few tokens.

A chat model that answers is called twice more, to see what it can do. The calls pass neither circuit breakers nor
limits: a provider that was out is asked again at once. Nothing is stored, so no SPU is charged; the provider bills the
tokens to whose key it is.
"""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from kb_contracts.api.llm_providers import ChatAbilities
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue, ChatModel
from kb_shared.chat.provider import ChatProvider
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.models import LOCAL, PROVIDERS
from kb_shared.errors import (
    NotFound,
    Parked,
    PermanentError,
    ProviderUnavailable,
    RequestError,
    UnknownModel,
)
from kb_shared.providers.refused_options import STREAM

WITHIN_S: Final = 15.0
_TEXT: Final = "test"
_COMPLETION: Final = CompletionRequest(
    # Reasoning models refuse a smaller limit.
    messages=[{"role": "user", "content": _TEXT}],
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
    """Outcome of one call."""

    provider: str
    model: str
    error_type: str | None
    """Stable slug; None if the provider has answered."""
    message: str | None
    duration_s: float
    abilities: ChatAbilities | None = None


class ProviderChecks:
    """Checks providers. One for a process."""

    def __init__(
        self, embedder: Embedder, chat_models: ChatCatalogue, chat: ChatProvider, *, default_model: str
    ) -> None:
        """Construct it; `default_model` is used for its provider if the caller names no model."""
        self._embedder = embedder
        self._chat_models = chat_models
        self._chat = chat
        self._default_model = default_model

    async def check(self, organization_id: str, provider: str, *, model: str | None) -> ProviderCheck:
        """Call `model`, or the cheapest embedding model of the provider, or else its cheapest chat model.

        Raises:
            NotFound: no provider is called so.
            RequestError: 422 `unknown-model`: it has no such model.
        """
        if provider not in PROVIDERS and provider != LOCAL:
            raise NotFound("LLM provider")
        name = model or self._choose(provider)
        if self._is_embedding_model(name, provider):
            call: Awaitable[object] = self._embedder.ask_unguarded(organization_id, name, _TEXT)
        elif self._is_chat_model(name, provider):
            return await self._check_chat(organization_id, provider, name)
        else:
            raise _unknown_model(provider)
        return await _measure(call, provider=provider, model=name)

    async def close(self) -> None:
        await self._chat.close()

    def _choose(self, provider: str) -> str:
        if self._is_embedding_model(self._default_model, provider):
            return self._default_model
        catalogue = self._embedder.models.catalogue
        chosen = catalogue.cheapest_of(provider) or self._chat_models.cheapest_of(provider)
        if chosen is None:
            raise _unknown_model(provider)
        return chosen

    def _is_embedding_model(self, name: str, provider: str) -> bool:
        try:
            return self._embedder.models.provider_of(name) == provider
        except UnknownModel:
            return False

    def _is_chat_model(self, name: str, provider: str) -> bool:
        try:
            return (self._chat_models.provider_of(name) or LOCAL) == provider
        except UnknownModel:
            return False

    async def _check_chat(self, organization_id: str, provider: str, name: str) -> ProviderCheck:
        checked = await _measure(self._complete(organization_id, name), provider=provider, model=name)
        if checked.error_type is not None:
            return checked
        model = await self._chat_model(organization_id, name)
        called, answered = await run_all_or_cancel(self._try(each, model) for each in (_WITH_TOOL, _WITH_SCHEMA))
        refused = {option for completion in (called, answered) if completion for option in completion.left_out}
        abilities = ChatAbilities(
            calls_tools=called is not None and any(call.name == "report_weather" for call in called.tool_calls),
            streams=called is not None and STREAM not in called.left_out,
            follows_schema=answered is not None and _follows_schema(answered.text or ""),
            max_input_tokens=model.max_input_tokens,
            refused_options=sorted(refused),
        )
        return replace(checked, abilities=abilities)

    async def _complete(self, organization_id: str, name: str) -> None:
        model = await self._chat_model(organization_id, name)
        await self._chat.complete(_COMPLETION, model=model, timeout_s=WITHIN_S)

    async def _chat_model(self, organization_id: str, name: str) -> ChatModel:
        access = await self._embedder.models.find_access(organization_id, self._chat_models.provider_of(name))
        return self._chat_models.get(name, access)

    async def _try(self, request: CompletionRequest, model: ChatModel) -> Completion | None:
        """Return the answer, streamed; None if there is none."""

        async def on_text(_: str) -> None:
            pass

        try:
            async with asyncio.timeout(WITHIN_S):
                return await self._chat.complete(request, model=model, timeout_s=WITHIN_S, on_text=on_text)
        except (TimeoutError, ProviderUnavailable, PermanentError, Parked):
            return None


def _follows_schema(text: str) -> bool:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.keys() == {"ok"} and isinstance(answer["ok"], bool)


async def _measure(call: Awaitable[object], *, provider: str, model: str) -> ProviderCheck:
    began = perf_counter()
    error_type: str | None = None
    message: str | None = None
    try:
        async with asyncio.timeout(WITHIN_S):
            await call
    except TimeoutError:
        error_type, message = "provider_timeout", f"the provider did not answer within {WITHIN_S:g} s"
    except (ProviderUnavailable, PermanentError, Parked) as error:
        # Of these errors the texts are ours: none of them quotes the provider, which may quote the key.
        error_type, message = error.error_type, str(error)
    return ProviderCheck(provider, model, error_type, message, perf_counter() - began)


def _unknown_model(provider: str) -> RequestError:
    return RequestError(
        422, "unknown-model", f"{provider} has no such model here; GET /embedding-models and /chat-models list models."
    )
