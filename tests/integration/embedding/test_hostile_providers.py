"""Servers that organizations named as their provider, and that do what no honest one does."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kb_shared.embedding.models import MAX_DIMENSIONS, EmbeddingModel, ModelCatalogue
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.errors import ProviderRefused, ProviderUnavailable
from kb_shared.providers.access import Access
from tests.hostile_provider import (
    Behaviour,
    HostileProvider,
    drips,
    embeddings,
    gives,
    gives_vectors,
    gzip_bomb,
    hostile_provider,
)
from tests.waiting import BRAKE_S

KEY = "sk-of-an-organization"
MODEL = "text-embedding-3-small"


def model_at(api_base: str, name: str = MODEL) -> EmbeddingModel:
    catalogue = ModelCatalogue(bundled_models(), local_models_api_base=None, environment={})
    return catalogue.get(name, Access(KEY, api_base))


def model_of_environment(api_base: str, name: str) -> EmbeddingModel:
    environment = {
        "OPENAI_API_KEY": KEY,
        "OPENAI_API_BASE": api_base,
        "AZURE_API_KEY": KEY,
        "AZURE_API_BASE": api_base,
        "AZURE_API_VERSION": "2024-02-01",
    }
    return ModelCatalogue(bundled_models(), local_models_api_base=None, environment=environment).get(name)


@asynccontextmanager
async def asking(behaviour: Behaviour) -> AsyncIterator[tuple[Provider, HostileProvider]]:
    provider = Provider(timeout_s=30, private_addresses=True)
    async with hostile_provider(behaviour) as hostile:
        yield provider, hostile
        await provider.close()


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("name", [MODEL, "azure/text-embedding-3-small"])
async def test_a_call_ends_in_time_though_a_byte_of_its_answer_comes_now_and_then(name: str, is_own: bool) -> None:
    async with asking(gives(embeddings(1, 16))) as (provider, hostile):
        model = model_at(hostile.api_base, name) if is_own else model_of_environment(hostile.api_base, name)
        # A first call takes longer, as LiteLLM imports what it needs.
        await provider.embed(["a"], model=model, dimensions=16, input_type="document")
        hostile.behaviour = drips(0.05)
        provider.timeout_s = 0.5
        # Without the limit it would never end: the answer has no last byte.
        async with asyncio.timeout(BRAKE_S):
            with pytest.raises(ProviderUnavailable) as raised:
                await provider.embed(["a"], model=model, dimensions=16, input_type="document")
        assert raised.value.error_type == "provider_timeout"
        await hostile.wait_until_disconnected()
    assert len(hostile.asked) == 2


async def test_little_that_decompresses_to_much_takes_little_memory() -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asking(gzip_bomb(300_000_000)) as (provider, hostile):
        with pytest.raises(ProviderRefused) as raised:
            await provider.embed(["a"], model=model_at(hostile.api_base), dimensions=None, input_type="document")
    assert raised.value.error_type == "answer_too_large"
    assert raised.value.__context__ is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000
    assert [asked.headers["accept-encoding"] for asked in hostile.asked] == ["identity"]


async def test_an_answer_is_read_no_further_than_the_vectors_that_were_asked_for_need() -> None:
    async with asking(gives(b"[" + b"0," * 1_000_000 + b"0]")) as (provider, hostile):
        with pytest.raises(ProviderRefused):
            await provider.embed(["a"], model=model_at(hostile.api_base), dimensions=16, input_type="document")


@pytest.mark.parametrize("dimensions", [MAX_DIMENSIONS + 1, 200_000])
async def test_vectors_of_more_dimensions_than_can_be_searched_are_refused(dimensions: int) -> None:
    async with asking(gives_vectors(dimensions)) as (provider, hostile):
        with pytest.raises(ProviderRefused) as raised:
            await provider.embed(["a"], model=model_at(hostile.api_base), dimensions=None, input_type="document")
    assert raised.value.error_type == "answer_too_large"


async def test_the_largest_right_answer_is_taken() -> None:
    async with asking(gives_vectors(MAX_DIMENSIONS)) as (provider, hostile):
        model = model_at(hostile.api_base)
        [vector] = await provider.embed(["a"], model=model, dimensions=None, input_type="document")
        assert len(vector) == MAX_DIMENSIONS
        texts = [str(n) for n in range(100)]
        assert len(await provider.embed(texts, model=model, dimensions=MAX_DIMENSIONS, input_type="document")) == 100


async def test_azure_with_an_organization_s_own_key_is_asked_at_the_address_it_named() -> None:
    async with asking(gives(embeddings(1, 1536))) as (provider, hostile):
        model = model_at(hostile.address, "azure/text-embedding-3-small")
        [vector] = await provider.embed(["a"], model=model, dimensions=1536, input_type="document")
    assert len(vector) == 1536
    [asked] = hostile.asked
    assert asked.path.startswith("/openai/deployments/text-embedding-3-small/embeddings?api-version=")
    assert asked.headers["api-key"] == KEY
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("name", [MODEL, "azure/text-embedding-3-small"])
async def test_no_connection_is_made_to_an_address_that_is_not_public(name: str) -> None:
    careful = Provider(timeout_s=30)
    async with hostile_provider(gives(embeddings(1, 1536))) as hostile:
        with pytest.raises(ProviderUnavailable):
            await careful.embed(["a"], model=model_at(hostile.api_base, name), dimensions=1536, input_type="document")
    assert hostile.asked == []
    await careful.close()
