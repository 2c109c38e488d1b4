"""Embeddings under a budget in dollars: their price is reserved before the provider is asked, and charged with them."""

from collections.abc import AsyncIterator, Callable

import pytest

from kb_local.python_server import ModelServerProcess
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import BudgetExhausted, ProviderRefused, UnknownPrice
from kb_shared.mongo import budgets, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database
from kb_shared.mongo.spu_ledger import Spent
from kb_shared.prices import NANO_USD, Prices
from kb_shared.settings import EmbeddingSettings
from tests.integration.embedding.conftest import FaultyProvider

pytestmark = pytest.mark.usefixtures("within_a_month")

USD_PER_SPU = 0.5


@pytest.fixture
async def priced(
    make_embedder: Callable[..., Embedder], database: Database, model_server: ModelServerProcess
) -> AsyncIterator[Embedder]:
    make_embedder()
    settings = EmbeddingSettings(local_models_api_base=model_server.api_base, usd_per_spu=USD_PER_SPU)
    embedder = create_embedder(database, settings, patience_s=5)
    yield embedder
    await embedder.close()


async def embed(embedder: Embedder, purpose: Purpose, *texts: str) -> int:
    return (await embedder.embed(texts, model="hash-16", dimensions=16, purpose=purpose)).generated


async def limit(database: Database, usd: float) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(hard_nano_usd=round(usd * NANO_USD)))


async def spent(database: Database) -> tuple[Spent, int, int]:
    """By the ledger; and by the budget: used and reserved."""
    budget = await budgets.find(database, "acme")
    assert budget is not None
    return await spu_ledger.sum_this_month(database, "acme"), budget.used_nano_usd, budget.reserved_nano_usd


async def test_a_hard_budget_in_dollars_refuses_before_the_first_call_and_is_used_to_the_last_cent(
    priced: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await limit(database, 2.0)
    await embed(priced, indexing, "a", "b", "c")
    calls = await provider.calls()
    with pytest.raises(BudgetExhausted, match="of 2 USD for"):
        await embed(priced, indexing, "d", "e")
    assert await provider.calls() == calls
    assert await embed(priced, indexing, "a", "b", "c", "d") == 1
    async with priced.allowance("acme") as allowance:
        with pytest.raises(BudgetExhausted):
            await priced.check_available(model="hash-16", purpose=indexing, allowance=allowance)
    assert await spent(database) == (Spent(4, 2 * NANO_USD), 2 * NANO_USD, 0)


async def test_a_failed_call_returns_the_dollars_that_it_did_not_cost(
    priced: Embedder, provider: FaultyProvider, indexing: Purpose, database: Database
) -> None:
    await limit(database, 1.0)
    await provider.program_faults({"status": 404})
    with pytest.raises(ProviderRefused):
        await embed(priced, indexing, "a", "b")
    assert await spent(database) == (Spent(), 0, 0)
    await provider.program_faults()
    assert await embed(priced, indexing, "a", "b") == 2


async def test_without_a_known_price_the_provider_is_not_asked(
    priced: Embedder,
    provider: FaultyProvider,
    indexing: Purpose,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await limit(database, 100.0)
    monkeypatch.setattr(Prices, "of_embedding", lambda *_, **__: None)
    calls = await provider.calls()
    with pytest.raises(UnknownPrice):
        await embed(priced, indexing, "a")
    async with priced.allowance("acme") as allowance:
        with pytest.raises(UnknownPrice):
            await priced.check_available(model="hash-16", purpose=indexing, allowance=allowance)
    assert await provider.calls() == calls
