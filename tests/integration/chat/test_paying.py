"""What a call of a chat model costs is reserved before it and charged after it, whatever becomes of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from kb_local.python_server import ModelServerProcess
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.chat.completion import Completion, CompletionRequest
from kb_shared.errors import BudgetExhausted, ProviderUnavailable, UnknownPrice
from kb_shared.mongo import budgets, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database
from kb_shared.mongo.spu_ledger import Spent
from kb_shared.prices import NANO_USD, ModelPrice
from kb_shared.settings import ChatSettings
from tests.scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("within_a_month")

ORGANIZATION = "acme"
PRICE = ModelPrice(prompt=1_000, completion=10_000)
"""So that a token costs a thousandth of a dollar, and one of the answer ten."""
TOKEN = NANO_USD // 1_000
SHORT = CompletionRequest([{"role": "user", "content": "x"}], max_completion_tokens=100)
TURN = {"text": "so", "prompt_tokens": 20, "completion_tokens": 3}
COST = 20 * TOKEN + 3 * 10 * TOKEN


@pytest.fixture
async def chat(database: Database, model_server: ModelServerProcess, scripted: ScriptedModel) -> AsyncIterator[Chat]:
    settings = ChatSettings(
        local_models_api_base=model_server.api_base,
        chat_patience_s=0.2,
        chat_timeout_s=600,
        model_prices={scripted.name: PRICE},
    )
    chat = create_chat(database, settings)
    yield chat
    await chat.close()


async def ask(chat: Chat, scripted: ScriptedModel, question: CompletionRequest = SHORT, **fields: Any) -> Completion:
    model = await chat.model(ORGANIZATION, scripted.name)
    return await chat.complete(ORGANIZATION, question, model=model, **fields)


async def limit(database: Database, usd: float) -> None:
    await budgets.set_limits(database, ORGANIZATION, BudgetLimits(hard_nano_usd=round(usd * NANO_USD)))


async def spent(database: Database) -> tuple[Spent, int, int]:
    """By the ledger; and by the budget: used and reserved, in nano-dollars."""
    budget = await budgets.find(database, ORGANIZATION)
    assert budget is not None
    ledger = await spu_ledger.sum_this_month(database, ORGANIZATION)
    return ledger, budget.used_nano_usd, budget.reserved_nano_usd


async def test_an_answer_is_charged_with_what_it_cost_and_the_rest_is_free_again(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await limit(database, 100)
    await scripted.says(TURN)
    await ask(chat, scripted)
    await ask(chat, scripted)
    assert await spent(database) == (Spent(0, 2 * COST), 2 * COST, 0)
    row = await database[spu_ledger.NAME].find_one()
    assert row is not None
    assert (row["operation"], row["model"], row["kb_id"]) == ("chat", scripted.name, None)


async def test_without_a_budget_answers_are_charged_as_well(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await scripted.says(TURN)
    await ask(chat, scripted)
    assert await spu_ledger.sum_this_month(database, ORGANIZATION) == Spent(0, COST)


async def test_a_model_is_not_asked_when_its_dearest_answer_has_no_room(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await limit(database, 1.0)
    await scripted.says(TURN)
    with pytest.raises(BudgetExhausted, match="of 1 USD for"):
        await ask(chat, scripted)
    await ask(chat, scripted, CompletionRequest(SHORT.messages, max_completion_tokens=50))
    long_schema = {"type": "object", "description": "x" * 3_000}
    with pytest.raises(BudgetExhausted):
        await ask(chat, scripted, CompletionRequest(SHORT.messages, schema=long_schema, max_completion_tokens=1))
    assert len(await scripted.requests()) == 1
    assert await spent(database) == (Spent(0, COST), COST, 0)


async def test_however_many_ask_at_once_a_month_never_costs_more_than_its_hard_limit(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    # Each may cost a little over a dollar, and costs half of one.
    await scripted.says({"text": "so", "prompt_tokens": 10, "completion_tokens": 49})
    await limit(database, 5.0)
    answers = await asyncio.gather(*(ask(chat, scripted) for _ in range(12)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BudgetExhausted)]
    assert all(isinstance(answer, Completion | BudgetExhausted) for answer in answers)
    assert 4 <= len(refused) <= 8, "four have room at once, and a ninth never has"
    ledger, used, reserved = await spent(database)
    assert ledger.nano_usd == used == (12 - len(refused)) * 500 * TOKEN <= 5 * NANO_USD
    assert reserved == 0


async def test_an_answer_that_breaks_off_is_charged_with_what_was_heard_of_it(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await limit(database, 100)
    await scripted.says({"text": "one two three four five six seven eight nine ten", "cut": True})

    async def listen(_: str) -> None:
        return

    with pytest.raises(ProviderUnavailable):
        await ask(chat, scripted, on_text=listen)
    ledger, used, reserved = await spent(database)
    assert ledger.nano_usd == used > 10 * TOKEN
    assert reserved == 0


async def test_a_caller_who_leaves_is_charged_with_the_prompt(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await limit(database, 100)
    await scripted.says({"text": "so", "delay_s": 300})
    asking = asyncio.create_task(ask(chat, scripted))
    await scripted.wait_for_requests()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await chat.close()
    ledger, used, reserved = await spent(database)
    assert ledger.nano_usd == used > 0
    assert reserved == 0


async def test_a_caller_who_leaves_twice_is_charged_once(
    chat: Chat, scripted: ScriptedModel, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(database, 100)
    await scripted.says(TURN)
    is_charging, may_charge = asyncio.Event(), asyncio.Event()
    charge = spu_ledger.charge

    async def slow_charge(*args: Any) -> None:
        is_charging.set()
        await may_charge.wait()
        await charge(*args)

    monkeypatch.setattr(spu_ledger, "charge", slow_charge)
    asking = asyncio.create_task(ask(chat, scripted))
    await is_charging.wait()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    may_charge.set()
    await chat.close()
    assert await spent(database) == (Spent(0, COST), COST, 0)


async def test_a_call_that_was_refused_costs_nothing(chat: Chat, scripted: ScriptedModel, database: Database) -> None:
    await limit(database, 100)
    await scripted.says({"status": 503})
    with pytest.raises(ProviderUnavailable):
        await ask(chat, scripted)
    assert await spent(database) == (Spent(), 0, 0)


async def test_a_model_without_a_known_price_is_refused_under_a_budget_in_money(
    chat: Chat, scripted: ScriptedModel, database: Database
) -> None:
    await scripted.says(TURN)
    model = await chat.model(ORGANIZATION, scripted.name)
    unpriced = replace(model, usd_per_prompt_token=None)
    await chat.complete("globex", SHORT, model=unpriced)
    await limit(database, 100)
    with pytest.raises(UnknownPrice):
        await chat.complete(ORGANIZATION, SHORT, model=unpriced)
    assert len(await scripted.requests()) == 1
