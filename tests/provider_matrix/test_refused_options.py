"""Servers that do not know an option of a request."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kb_shared.chat.completion import Completion, CompletionRequest, Message
from kb_shared.chat.models import ChatCatalogue, ChatModel
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.errors import BatchRefused, ProviderUnavailable
from kb_shared.providers import refused_options
from kb_shared.providers.access import Access
from kb_shared.providers.refused_options import MAX_SERVERS, REMEMBERED_S, WITHOUT_TOOLS_S, ServerHabits
from tests.hostile_provider import Asked, Behaviour, HostileProvider, hostile_provider, says
from tests.provider_matrix.answering import answers
from tests.provider_matrix.embedding_variations import VECTORS

QUESTION: Message = {"role": "user", "content": "How long?"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "find_rates", "parameters": {"type": "object"}}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"minutes": {"type": "integer"}}}
FULL = CompletionRequest([QUESTION], tools=[TOOL], schema=SCHEMA, max_completion_tokens=50, temperature=0.2)


def refuses(is_refused: Callable[[dict[str, Any]], bool], words: str, *, status: int = 400) -> Behaviour:
    refusal = answers(json.dumps({"error": {"message": words}}), status=status)

    async def behaviour(writer: Any, asked: Asked) -> None:
        await (refusal if is_refused(asked.body) else says("so"))(writer, asked)

    return behaviour


def model_at(hostile: HostileProvider) -> ChatModel:
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    return catalogue.get("gpt-4o-mini", Access("key", hostile.api_base))


async def ask(provider: ChatProvider, hostile: HostileProvider, request: CompletionRequest = FULL) -> Completion:
    async def on_text(_: str) -> None:
        pass

    return await provider.complete(request, model=model_at(hostile), timeout_s=60, on_text=on_text)


@pytest.mark.parametrize(
    ("option", "words", "status"),
    [
        ("stream_options", "Extra inputs are not permitted: body.stream_options", 422),
        ("stream_options", "Bad Request", 400),
        ("tools", "library/m does not support tools", 400),
        ("tools", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400),
        ("tools", "No endpoints found that support tool use", 404),
        ("tools", "tools param requires --jinja flag", 500),
        ("tools", "Bad Request", 400),
        ("response_format", "response_format is not supported", 400),
        ("response_format", "Unprocessable", 422),
        ("max_completion_tokens", "Unknown parameter: 'max_completion_tokens'", 400),
        ("max_completion_tokens", "max_tokens is too large: 50. This model supports at most 20 completion tokens", 400),
        ("temperature", "Unsupported value: 'temperature' does not support 0.2 with this model", 400),
        ("stream", "streaming is not supported for this model", 400),
    ],
)
async def test_an_option_is_left_out_after_its_refusal_and_then_at_once(
    option: str, words: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_options, "WITHOUT_TOOLS_S", REMEMBERED_S)
    provider = ChatProvider(private_addresses=True)
    async with hostile_provider(refuses(lambda body: option in body, words, status=status)) as hostile:
        assert (await ask(provider, hostile)).text == "so"
        tried = len(hostile.asked)
        said = await ask(provider, hostile)
        await provider.close()
    assert 2 <= tried <= 4
    assert option in said.left_out
    assert len(hostile.asked) == tried + 1, "the second answer took one request"


async def test_a_limit_of_tokens_is_sent_under_its_old_name() -> None:
    provider = ChatProvider(private_addresses=True)
    old_only = refuses(lambda body: "max_completion_tokens" in body, "unknown field max_completion_tokens")
    async with hostile_provider(old_only) as hostile:
        await ask(provider, hostile)
        await provider.close()
    assert hostile.asked[-1].body["max_tokens"] == 50


@pytest.mark.parametrize(
    ("messages", "words", "expected"),
    [
        (
            [{"role": "system", "content": "Be short."}, QUESTION],
            "System role not supported",
            [{"role": "user", "content": "Be short.\n\nHow long?"}],
        ),
        (
            [
                QUESTION,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "find_rates", "arguments": '{"q": 1}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "a", "content": "95 minutes"},
            ],
            "Conversation roles must alternate user/assistant/user/assistant/...",
            [
                QUESTION,
                {"role": "assistant", "content": '{"name": "find_rates", "arguments": {"q": 1}}'},
                {"role": "user", "content": "Result of find_rates:\n95 minutes"},
            ],
        ),
    ],
)
async def test_roles_that_a_template_refuses_are_those_of_user_and_assistant(
    messages: list[Message], words: str, expected: list[Message]
) -> None:
    provider = ChatProvider(private_addresses=True)

    def is_refused(body: dict[str, Any]) -> bool:
        return any(each["role"] in ("system", "tool") for each in body["messages"])

    async with hostile_provider(refuses(is_refused, words)) as hostile:
        assert (await ask(provider, hostile, CompletionRequest(messages))).text == "so"
        await provider.close()
    assert hostile.asked[-1].body["messages"] == expected


async def test_a_refusal_of_the_messages_is_no_refusal_of_an_option() -> None:
    words = json.dumps({"error": {"message": "max_tokens: x", "code": "context_length_exceeded"}})
    provider = ChatProvider(private_addresses=True)
    async with hostile_provider(answers(words, status=400)) as hostile:
        with pytest.raises(BatchRefused):
            await ask(provider, hostile)
        await provider.close()
    assert len(hostile.asked) == 1


async def test_what_a_model_wrote_wrongly_is_no_refusal_of_tools() -> None:
    words = json.dumps({"error": {"message": "Failed to call a function", "code": "tool_use_failed"}})
    provider = ChatProvider(private_addresses=True)
    async with hostile_provider(answers(words, status=400)) as hostile:
        with pytest.raises(ProviderUnavailable):
            await ask(provider, hostile)
        await provider.close()
    assert len(hostile.asked) == 1


async def test_a_server_that_refuses_everything_is_asked_a_few_times_and_once_when_it_has_answered_before() -> None:
    is_angry = True
    provider = ChatProvider(private_addresses=True)
    async with hostile_provider(refuses(lambda _: is_angry, "Bad Request")) as hostile:
        with pytest.raises(BatchRefused):
            await ask(provider, hostile)
        assert len(hostile.asked) <= 5
        is_angry = False
        await ask(provider, hostile)
        is_angry, before = True, len(hostile.asked)
        with pytest.raises(BatchRefused):
            await ask(provider, hostile)
        await provider.close()
    assert len(hostile.asked) == before + 1


async def test_a_server_without_base64_or_dimensions_gives_vectors() -> None:
    right = answers(json.dumps({"data": [{"embedding": vector} for vector in VECTORS]}))
    refusal = answers('{"detail": [{"loc": ["body", "encoding_format"], "msg": "Extra inputs"}]}', status=422)

    async def behaviour(writer: Any, asked: Asked) -> None:
        await (refusal if "encoding_format" in asked.body else right)(writer, asked)

    provider = Provider(timeout_s=60, private_addresses=True)
    catalogue = ModelCatalogue(bundled_models(), local_models_api_base=None, environment={})
    async with hostile_provider(behaviour) as hostile:
        model = catalogue.get("text-embedding-3-small", Access("key", hostile.api_base))
        for _ in range(2):
            found = await provider.embed(["a", "b", "c"], model=model, dimensions=2, input_type="document")
            assert [vector.tolist() for vector in found] == VECTORS
        await provider.close()
    assert len(hostile.asked) == 3


def test_what_is_remembered_is_bounded_and_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(
        refused_options, "BoundedCache", lambda *args, **named: BoundedCache(*args, **named, clock=lambda: now)
    )
    habits = ServerHabits()
    for number in range(MAX_SERVERS + 1):
        habits.note_answer(str(number), without=frozenset({"tools", "stream_options"}))
    assert not habits.refused("0")
    assert habits.refused("1") == {"tools", "stream_options"}
    now = WITHOUT_TOOLS_S
    assert habits.refused("1") == {"stream_options"}
    now = REMEMBERED_S
    assert not habits.refused("1")
