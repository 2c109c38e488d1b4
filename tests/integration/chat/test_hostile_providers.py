"""Servers that organizations named as their provider of chat models."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.errors import KbError, ProviderUnavailable
from kb_shared.providers.access import Access
from tests.hostile_provider import (
    Behaviour,
    HostileProvider,
    chat_piece,
    gives,
    gzip_bomb,
    hostile_provider,
    says,
    streams_without_end,
)

KEY = "sk-of-an-organization"
TOOL: dict[str, object] = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}
OF_AZURE = ["azure/gpt-4o", "azure/o1", "azure/gpt-5.5", "azure/gpt-6-astra"]
"""Models for each way in which LiteLLM calls Azure; models from 5.4 on have one of their own where there are tools."""


@asynccontextmanager
async def asking(
    behaviour: Behaviour, *, private_addresses: bool = True
) -> AsyncIterator[tuple[ChatProvider, HostileProvider]]:
    provider = ChatProvider(private_addresses=private_addresses)
    async with hostile_provider(behaviour) as hostile:
        yield provider, hostile
        await provider.close()


async def ask(
    provider: ChatProvider,
    api_base: str,
    *,
    name: str = "gpt-4o-mini",
    is_streamed: bool = False,
    max_tokens: int = 1_000,
    tools: Sequence[dict[str, object]] = (),
    heard: Callable[[str], None] = lambda _: None,
) -> Completion:
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    model = catalogue.get(name, Access(KEY, api_base))
    question = CompletionRequest(
        [{"role": "user", "content": "hi"}], tools=list(tools), max_completion_tokens=max_tokens
    )

    async def on_text(text: str) -> None:
        heard(text)

    # Longer than a busy machine takes to read what is left: what ends before did not end by this.
    return await provider.complete(question, model=model, timeout_s=120, on_text=on_text if is_streamed else None)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("name", OF_AZURE)
async def test_azure_with_an_organization_s_own_key_answers(name: str, is_streamed: bool) -> None:
    async with asking(says("so")) as (provider, hostile):
        answer = await ask(provider, hostile.address, name=name, is_streamed=is_streamed, tools=[TOOL])
    assert answer.text == "so"
    [asked] = hostile.asked
    assert asked.path.startswith(f"/openai/deployments/{name.removeprefix('azure/')}/chat/completions?api-version=")
    assert asked.headers["api-key"] == KEY


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("name", ["gpt-4o-mini", *OF_AZURE])
async def test_no_connection_is_made_to_an_address_that_is_not_public(name: str, is_streamed: bool) -> None:
    async with asking(says("so"), private_addresses=False) as (provider, hostile):
        with pytest.raises(KbError):
            await ask(provider, hostile.api_base, name=name, is_streamed=is_streamed, tools=[TOOL])
    assert hostile.asked == []


@pytest.mark.parametrize("make_text", [lambda n: f"{n} " * 2_000, lambda _: "", str], ids=["long", "empty", "short"])
async def test_a_stream_without_end_is_left_long_before_its_time_is_over(make_text: Callable[[int], str]) -> None:
    async with asking(streams_without_end(make_text)) as (provider, hostile):
        with pytest.raises(ProviderUnavailable) as raised:
            await ask(provider, hostile.api_base, is_streamed=True, max_tokens=100)
        assert raised.value.error_type == "bad_answer"
        await hostile.wait_until_disconnected()


async def test_an_answer_ends_where_the_longest_one_of_its_model_does() -> None:
    """Whatever the budget of a run would still allow."""
    longest = bundled_chat_models()["gpt-4o-mini"].max_output_tokens
    assert longest is not None
    async with asking(gives(b" " * 200 * longest)) as (provider, hostile):
        with pytest.raises(ProviderUnavailable) as raised:
            await ask(provider, hostile.api_base, max_tokens=100 * longest)
    assert "longer than its tokens can be" in str(raised.value)


async def test_a_caller_who_is_cancelled_twice_leaves_no_connection_open() -> None:
    heard = asyncio.Event()
    async with asking(streams_without_end(str)) as (provider, hostile):
        asked = asyncio.ensure_future(
            ask(provider, hostile.api_base, is_streamed=True, max_tokens=10_000, heard=lambda _: heard.set())
        )
        await heard.wait()
        for _ in range(3):
            asked.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([asked])
        await hostile.wait_until_disconnected()


async def test_other_tasks_run_between_two_pieces_that_come_at_once() -> None:
    pieces = [*(chat_piece(f"word{number} ") for number in range(1_000)), chat_piece("", finish_reason="stop")]
    body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    turn, of_pieces = 0, set()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with asking(gives(body.encode(), kind="text/event-stream")) as (provider, hostile):
        counting = asyncio.ensure_future(count_turns())
        await ask(provider, hostile.api_base, is_streamed=True, heard=lambda _: of_pieces.add(turn))
        counting.cancel()
    # The first pieces come together, when it is clear that they are no thought.
    assert len(of_pieces) > 990


@pytest.mark.parametrize("behaviour", [gzip_bomb(100_000_000), gives(b" " * 10_000_000)])
async def test_an_answer_is_read_no_further_than_its_tokens_need(behaviour: Behaviour) -> None:
    async with asking(behaviour) as (provider, hostile):
        with pytest.raises(ProviderUnavailable) as raised:
            await ask(provider, hostile.api_base, max_tokens=100)
    assert raised.value.error_type == "bad_answer"
