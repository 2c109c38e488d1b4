"""Chat models through LiteLLM, against a model that does what it is told to do wrong."""

import asyncio
import json
import traceback
from dataclasses import replace
from typing import Any

import pytest
import stamina
from prometheus_client import REGISTRY

from kb_shared.chat.chat import Chat
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.errors import (
    BatchRefused,
    KbError,
    Parked,
    ProviderIncompatible,
    ProviderKeyRefused,
    ProviderRefused,
    ProviderUnavailable,
    UnknownModel,
)
from kb_shared.mongo.circuit import OUTAGES_TO_OPEN
from kb_shared.providers.access import Access
from tests.hostile_provider import Asked, chat_piece, head, hostile_provider
from tests.scripted_model import ScriptedModel, call

ORGANIZATION = "acme"
SECRET = "for-this-organization-alone"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
QUESTION = CompletionRequest([{"role": "user", "content": SECRET}], tools=[TOOL])


async def ask(chat: Chat, scripted: ScriptedModel, **fields: Any) -> Completion:
    model = await chat.model(ORGANIZATION, scripted.name)
    return await chat.complete(ORGANIZATION, QUESTION, model=model, **fields)


async def listened(chat: Chat, scripted: ScriptedModel, **fields: Any) -> tuple[Completion, list[str]]:
    heard: list[str] = []

    async def on_text(text: str) -> None:
        heard.append(text)

    return await ask(chat, scripted, on_text=on_text, **fields), heard


async def test_text_calls_tokens_and_cost_come_back(chat: Chat, scripted: ScriptedModel) -> None:
    calls = [call("f", '{"a": 1}', "c1"), call("g", "{bad", "c2")]
    await scripted.says({"text": "so", "tool_calls": calls, "prompt_tokens": 70, "completion_tokens": 3})
    whole = await ask(chat, scripted)
    assert whole.text == "so"
    assert [(each.call_id, each.name, each.arguments) for each in whole.tool_calls] == [
        ("c1", "f", '{"a": 1}'),
        ("c2", "g", "{bad"),
    ]
    assert (whole.prompt_tokens, whole.completion_tokens, whole.cost_usd) == (70, 3, 0.0)
    assert whole.tokens_are_counted


async def test_a_streamed_answer_is_the_same_as_a_whole_one(chat: Chat, scripted: ScriptedModel) -> None:
    text = "one two three four five six seven eight nine ten"
    await scripted.says({"text": text, "tool_calls": [call("f", "{}", "c1")], "prompt_tokens": 7})
    streamed, heard = await listened(chat, scripted)
    assert streamed == await ask(chat, scripted)
    assert "".join(heard) == text
    assert len(heard) > 1


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_halves_of_characters_are_joined_or_replaced_in_all_parts_of_an_answer(
    chat: Chat, scripted: ScriptedModel, is_streamed: bool
) -> None:
    calls = [call("f<U+D83D>", '{"a": "<U+D83D><U+DE00> <U+DE00>"}', "c<U+D83D>")]
    await scripted.says({"text": "A <U+D83D><U+DE00>, <U+DE00> and <U+D83D>", "tool_calls": calls})
    said, heard = await listened(chat, scripted) if is_streamed else (await ask(chat, scripted), [])
    assert said.text == "A \U0001f600, \ufffd and \ufffd"
    assert "".join(heard) == (said.text if is_streamed else "")
    [made] = said.tool_calls
    assert (made.call_id, made.name, made.arguments) == ("c\ufffd", "f\ufffd", '{"a": "\U0001f600 \ufffd"}')


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_provider_that_reports_no_tokens_has_them_estimated(
    chat: Chat, scripted: ScriptedModel, is_streamed: bool
) -> None:
    await scripted.says({"text": "one two three", "prompt_tokens": 0, "completion_tokens": 0})
    said = (await listened(chat, scripted))[0] if is_streamed else await ask(chat, scripted)
    assert (said.text, said.tokens_are_counted) == ("one two three", False)
    assert said.prompt_tokens > 0
    assert said.completion_tokens > 0


@pytest.mark.parametrize(
    ("turn", "error", "error_type"),
    [
        ({"status": 400}, BatchRefused, "text_refused"),
        ({"status": 401}, ProviderKeyRefused, "provider_auth"),
        ({"status": 403}, ProviderKeyRefused, "provider_auth"),
        ({"status": 404}, ProviderRefused, "provider_4xx"),
        ({"status": 408}, ProviderUnavailable, "provider_timeout"),
        ({"status": 413}, BatchRefused, "text_refused"),
        ({"status": 422}, BatchRefused, "text_refused"),
        ({"status": 429}, ProviderUnavailable, "provider_429"),
        ({"status": 429, "code": "insufficient_quota"}, ProviderKeyRefused, "provider_quota"),
        ({"status": 500}, ProviderUnavailable, "provider_5xx"),
        ({"status": 502}, ProviderUnavailable, "provider_5xx"),
        ({"status": 503}, ProviderUnavailable, "provider_5xx"),
        ({"status": 504}, ProviderUnavailable, "provider_timeout"),
        ({"garbage": True}, ProviderIncompatible, "provider_incompatible"),
        ({"delay_s": 300}, ProviderUnavailable, "provider_timeout"),
    ],
)
async def test_an_error_says_what_to_do_and_quotes_nothing(
    chat: Chat, scripted: ScriptedModel, turn: dict[str, Any], error: type[KbError], error_type: str
) -> None:
    await scripted.says(turn)
    if "delay_s" in turn:
        chat._timeout_s = 1.0
    with pytest.raises(error) as raised:
        await ask(chat, scripted)
    assert vars(raised.value)["error_type"] == error_type
    assert SECRET not in "".join(traceback.format_exception(raised.value))


async def test_an_answer_that_breaks_off_is_an_outage_and_is_not_asked_for_again(
    chat: Chat, scripted: ScriptedModel
) -> None:
    await scripted.says({"text": "one two three four five six seven eight nine ten", "cut": True})
    chat._guard._patience_s = 30.0
    with pytest.raises(ProviderUnavailable):
        await listened(chat, scripted)
    assert len(await scripted.requests()) == 1


async def test_an_answer_that_stalls_is_an_outage_when_its_time_is_over(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"text": "one two three four five six seven eight nine ten", "stall_s": 300})
    chat._timeout_s = 1.0
    with pytest.raises(ProviderUnavailable) as raised:
        await listened(chat, scripted)
    assert raised.value.error_type == "provider_timeout"


async def test_an_answer_may_be_limited_and_says_when_it_was_cut(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"text": "so", "is_too_long": True})
    model = await chat.model(ORGANIZATION, scripted.name)
    limited = replace(QUESTION, max_completion_tokens=100)
    for limit, expected in [(None, 100), (101, 100), (100, None), (99, None)]:
        said = await chat.complete(ORGANIZATION, limited, model=replace(model, max_output_tokens=limit))
        assert said.is_cut
        asked = (await scripted.requests())[-1]
        assert asked.get("max_completion_tokens") == expected, "more than it ever writes is refused by a model"


async def test_a_passing_outage_is_tried_again(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"status": 503}, {"text": "back"})
    chat._guard._patience_s = 30.0
    labels = {"model": (await chat.model(ORGANIZATION, scripted.name)).label, "reason": "5xx"}
    before = REGISTRY.get_sample_value("kb_retries_total", labels) or 0
    assert (await ask(chat, scripted)).text == "back"
    assert REGISTRY.get_sample_value("kb_retries_total", labels) == before + 1


async def test_the_repetitions_of_one_call_count_once_for_the_circuit(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"status": 503})
    chat._guard._patience_s = 60.0
    # As many repetitions as open a circuit, if each is counted, without the pauses between them.
    with stamina.set_testing(testing=True, attempts=OUTAGES_TO_OPEN), pytest.raises(ProviderUnavailable):
        await ask(chat, scripted)
    assert len(await scripted.requests()) == OUTAGES_TO_OPEN
    await scripted.says({"text": "back"})
    assert (await ask(chat, scripted)).text == "back"


@pytest.mark.long
async def test_only_silence_ends_a_streamed_answer_that_takes_long() -> None:
    pieces = [chat_piece(f"word{number} ") for number in range(8)]

    async def slowly(writer: asyncio.StreamWriter, _: Asked) -> None:
        writer.write(head(kind="text/event-stream"))
        for piece in (*pieces, chat_piece("", finish_reason="stop")):
            writer.write(f"data: {json.dumps(piece)}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(0.5)

    async def on_text(_: str) -> None:
        pass

    provider = ChatProvider(private_addresses=True)
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    async with hostile_provider(slowly) as slow:
        model = catalogue.get("gpt-4o-mini", Access("key", slow.api_base))
        said = await provider.complete(QUESTION, model=model, timeout_s=2.5, on_text=on_text)
        with pytest.raises(ProviderUnavailable, match=r"timed out after 0\.1 s \(KB_CHAT_TIMEOUT_S\)"):
            await provider.complete(QUESTION, model=model, timeout_s=0.1, on_text=on_text)
        await provider.close()
    assert said.text == " ".join(f"word{number}" for number in range(8))


async def test_a_call_waits_for_the_limits_of_its_model_no_longer_than_a_call_is_repeated(
    chat: Chat, scripted: ScriptedModel
) -> None:
    await scripted.says({"text": "first"}, {"text": "second"})
    model = await chat.model(ORGANIZATION, scripted.name)
    limited = replace(model, access=Access("key", requests_per_minute=1))
    assert (await chat.complete(ORGANIZATION, QUESTION, model=limited)).text == "first"
    with pytest.raises(Parked) as raised:
        await chat.complete(ORGANIZATION, QUESTION, model=limited)
    assert raised.value.error_type == "rate_limited"
    assert len(await scripted.requests()) == 1


async def test_a_refused_key_is_not_tried_with_again_for_a_while(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"status": 401})
    with pytest.raises(ProviderKeyRefused):
        await ask(chat, scripted)
    with pytest.raises(Parked):
        await ask(chat, scripted)
    assert len(await scripted.requests()) == 1


async def test_a_caller_who_is_cancelled_leaves_the_provider(chat: Chat, scripted: ScriptedModel) -> None:
    await scripted.says({"text": "one two three four five six", "stall_s": 300})
    asking = asyncio.create_task(listened(chat, scripted))
    await scripted.wait_for_requests()
    asking.cancel()
    await scripted.wait_until_disconnected()


async def test_a_model_that_is_in_no_list_is_unknown(chat: Chat) -> None:
    with pytest.raises(UnknownModel):
        await chat.model(ORGANIZATION, "no-such-model")
