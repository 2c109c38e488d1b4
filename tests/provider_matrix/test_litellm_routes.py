"""Providers that are asked through LiteLLM, which decides what an error means by its words: here the status decides."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.errors import ProviderRefused, ProviderUnavailable
from kb_shared.providers.access import Access
from tests.hostile_provider import Asked, HostileProvider, hostile_provider
from tests.provider_matrix.answering import answers

AZURE: Final = "azure/gpt-4o-mini"
ANTHROPIC: Final = "claude-haiku-4-5"
CHAT: Final = (
    AZURE,
    ANTHROPIC,
    "gemini/gemini-2.5-flash",
    "mistral/mistral-small-latest",
    "fireworks_ai/accounts/fireworks/models/deepseek-r1",
    "nebius/deepseek-ai/DeepSeek-R1",
    "together_ai/Qwen/Qwen2.5-7B-Instruct-Turbo",
)
EMBEDDING: Final = (
    "azure/text-embedding-3-small",
    "cohere/embed-v4.0",
    "fireworks_ai/nomic-ai/nomic-embed-text-v1.5",
    "gemini/gemini-embedding-001",
    "mistral/mistral-embed",
    "nebius/BAAI/bge-en-icl",
    "together_ai/BAAI/bge-base-en-v1.5",
    "voyage/voyage-3-large",
)
ERRORS: Final = {
    400: "text_refused",
    401: "provider_auth",
    404: "provider_4xx",
    408: "provider_timeout",
    413: "text_refused",
    422: "text_refused",
    429: "provider_429",
    500: "provider_5xx",
    503: "provider_5xx",
    504: "provider_timeout",
    529: "provider_5xx",
}
WORDS: Final = (
    "",
    "Invalid API Key",
    "Request timed out",
    "content_policy_violation, model_not_found: prompt is too long. Rate limit reached, 429. Overloaded, 503.",
)
"""Words by which LiteLLM chooses a class of error."""


@dataclass
class ErringServer:
    """A provider, and what it answers next."""

    hostile: HostileProvider
    turn: dict[str, Any]

    def say(self, body: str, *, status: int = 200) -> None:
        self.turn.update(body=body, status=status)
        self.hostile.asked.clear()


@pytest.fixture
async def server() -> Any:
    turn: dict[str, Any] = {}

    async def behaviour(writer: Any, asked: Asked) -> None:
        if turn.get("is_silent"):
            await asyncio.Event().wait()
        longest = turn.get("longest")
        if longest is not None and asked.body["max_tokens"] <= longest:
            answered = {"type": "text", "text": "The second one."}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
            usage = {"input_tokens": 3, "output_tokens": 3}
            await answers(json.dumps({**message, "content": [answered], "usage": usage}))(writer, asked)
            return
        await answers(turn["body"], status=turn["status"])(writer, asked)

    async with hostile_provider(behaviour) as hostile:
        yield ErringServer(hostile, turn)
        # Closes the connections of litellm, which the chat provider leaves open.
        await Provider(timeout_s=1).close()


async def complete(provider: ChatProvider, name: str, server: ErringServer, *, is_streamed: bool = False) -> Completion:
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    address = server.hostile.api_base
    named = Access("key", address) if name == AZURE else Access("key")
    model = replace(catalogue.get(name, named), api_base=address)

    async def on_text(_: str) -> None:
        pass

    request = CompletionRequest([{"role": "user", "content": "Which ferry?"}], max_completion_tokens=2_500)
    return await provider.complete(request, model=model, timeout_s=60, on_text=on_text if is_streamed else None)


async def error_of(provider: ChatProvider, name: str, server: ErringServer, *, is_streamed: bool = False) -> str:
    with pytest.raises((ProviderRefused, ProviderUnavailable)) as raised:
        await complete(provider, name, server, is_streamed=is_streamed)
    return str(vars(raised.value)["error_type"])


@pytest.mark.parametrize("is_streamed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", [*CHAT[:3], *(pytest.param(name, marks=pytest.mark.long) for name in CHAT[3:])])
async def test_the_status_of_a_chat_model_s_error_decides_whatever_its_words_are(
    name: str, is_streamed: bool, server: ErringServer
) -> None:
    provider = ChatProvider(private_addresses=True)
    found = {}
    for status in ERRORS:
        for words in WORDS:
            server.say(json.dumps({"error": {"message": words}}) if words else "", status=status)
            found[status, words] = await error_of(provider, name, server, is_streamed=is_streamed)
    await provider.close()
    assert found == {(status, words): error for status, error in ERRORS.items() for words in WORDS}


@pytest.mark.parametrize("name", EMBEDDING)
async def test_the_status_of_an_embedding_model_s_error_decides_whatever_its_words_are(
    name: str, server: ErringServer
) -> None:
    provider = Provider(timeout_s=60, private_addresses=True)
    catalogue = ModelCatalogue(bundled_models(), local_models_api_base=None, environment={})
    address = server.hostile.api_base
    named = Access("key", address) if name.startswith("azure/") else Access("key")
    model = replace(catalogue.get(name, named), api_base=address)
    found = {}
    for status in ERRORS:
        for words in WORDS:
            server.say(json.dumps({"error": {"message": words}}) if words else "", status=status)
            with pytest.raises((ProviderRefused, ProviderUnavailable)) as raised:
                await provider.embed(["a"], model=model, dimensions=None, input_type="document")
            found[status, words] = vars(raised.value)["error_type"]
    await provider.close()
    assert found == {(status, words): error for status, error in ERRORS.items() for words in WORDS}


@pytest.mark.parametrize("name", [each for each in CHAT if each != ANTHROPIC])
async def test_an_error_in_a_stream_means_what_its_code_says(name: str, server: ErringServer) -> None:
    provider = ChatProvider(private_addresses=True)
    found = {}
    for status in (400, 401, 429, 500, 503):
        for words in WORDS[1:]:
            server.say(f"data: {json.dumps({'error': {'code': status, 'message': words}})}\n\n")
            found[status, words] = await error_of(provider, name, server, is_streamed=True)
    await provider.close()
    assert found == {(status, words): ERRORS[status] for status, words in found}


async def test_an_error_in_a_stream_of_anthropic_is_an_outage_because_litellm_hides_its_type(
    server: ErringServer,
) -> None:
    provider = ChatProvider(private_addresses=True)
    for words in WORDS[1:]:
        said = {"type": "error", "error": {"type": "overloaded_error", "message": words}}
        server.say(f"event: error\ndata: {json.dumps(said)}\n\n")
        assert await error_of(provider, ANTHROPIC, server, is_streamed=True) == "provider_5xx"
    await provider.close()


# LiteLLM takes such an answer of Fireworks for an empty one.
@pytest.mark.parametrize("name", [each for each in CHAT if not each.startswith("fireworks_ai/")])
async def test_an_error_without_a_code_in_an_answer_of_200_is_a_bad_answer(name: str, server: ErringServer) -> None:
    provider = ChatProvider(private_addresses=True)
    for words in WORDS[1:]:
        server.say(json.dumps({"type": "error", "error": {"message": words}}))
        assert await error_of(provider, name, server) == "bad_answer"
    await provider.close()


@pytest.mark.parametrize("name", CHAT)
async def test_silence_is_a_timeout_also_where_litellm_notices_it(
    name: str, server: ErringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ChatProvider._arguments
    monkeypatch.setattr(ChatProvider, "_arguments", lambda self, body, model, _: make(self, body, model, 0.2))
    provider = ChatProvider(private_addresses=True)
    server.turn["is_silent"] = True
    assert await error_of(provider, name, server) == "provider_timeout"
    await provider.close()


async def test_a_shorter_answer_is_asked_for_through_litellm_too(server: ErringServer) -> None:
    provider = ChatProvider(private_addresses=True)
    words = "input length and `max_tokens` exceed context limit: 14800 + 2500 > 16385, decrease input length"
    server.say(json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": words}}), status=400)
    server.turn["longest"] = 1_585
    assert (await complete(provider, ANTHROPIC, server)).text == "The second one."
    await provider.close()
    assert [each.body["max_tokens"] for each in server.hostile.asked] == [2_500, 1_585]
