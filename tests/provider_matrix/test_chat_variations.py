"""What a chat provider may answer, in the form that was asked for and in the other one."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chat.answers.answer_reader import AnswerReader
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, bundled_chat_models
from kb_shared.errors import ProviderRefused, ProviderUnavailable
from kb_shared.providers.access import Access
from kb_shared.providers.openai_server import read_pieces
from tests.hostile_provider import hostile_provider
from tests.provider_matrix.answering import answers
from tests.provider_matrix.chat_variations import NAMES, Variation, all_variations

VARIATIONS = all_variations()
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in NAMES
]


async def ask(variation: Variation, *, is_streamed: bool, heard: list[str]) -> Completion:
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    provider = ChatProvider(private_addresses=True)
    request = CompletionRequest([{"role": "user", "content": "How long?"}], tools=TOOLS)

    async def on_text(text: str) -> None:
        heard.append(text)

    async with hostile_provider(answers(variation.body, status=variation.status, kind=variation.kind)) as hostile:
        model = catalogue.get("gpt-4o-mini", Access("key", hostile.api_base))
        try:
            return await provider.complete(request, model=model, timeout_s=60, on_text=on_text if is_streamed else None)
        finally:
            await provider.close()


def test_the_matrix_is_large_enough() -> None:
    assert len(VARIATIONS) >= 150
    assert len({each.name for each in VARIATIONS}) == len(VARIATIONS)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["asked for whole", "asked for streamed"])
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda each: each.name)
async def test_an_answer_means_what_its_provider_meant(variation: Variation, is_streamed: bool) -> None:
    heard: list[str] = []
    if variation.error is not None:
        with pytest.raises((ProviderRefused, ProviderUnavailable)) as raised:
            await ask(variation, is_streamed=is_streamed, heard=heard)
        assert vars(raised.value)["error_type"] == variation.error
        return
    said = await ask(variation, is_streamed=is_streamed, heard=heard)
    assert [(each.name, each.arguments) for each in said.tool_calls] == list(variation.calls)
    assert (said.text or None, said.is_cut) == (variation.text or None, variation.is_cut)
    thoughts = {name: value for name, value in said.returned.items() if name != "content" or value}
    assert thoughts == {name: value for name, value in variation.returned.items() if name != "content" or value}
    if is_streamed and "without an end tag" not in variation.name:
        assert "".join(heard) == (said.text or "")


READABLE = [each for each in VARIATIONS if each.error is None]


async def read(chunks: list[bytes]) -> tuple[Any, str]:
    async def come() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    reader = AnswerReader(NAMES, is_json=False, thinks_aloud=None)
    heard = [reader.feed(piece) async for piece in read_pieces(come(), kind="", max_bytes=10**9)]
    heard.append(reader.end())
    return reader.answer(), "".join(heard)


@given(st.sampled_from(READABLE), st.integers(0, 2**32))
async def test_an_answer_does_not_depend_on_where_it_is_cut(variation: Variation, seed: int) -> None:
    body = variation.body.encode()
    chance = random.Random(seed)
    cuts = sorted(chance.randrange(len(body) + 1) for _ in range(chance.choice([1, 3, 30, len(body)])))
    chunks = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert await read(chunks) == await read([body])
