"""A budget in dollars over HTTP: runs are refused as searches are when SPUs are used up."""

from typing import Any

import pytest

from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import Chat
from kb_shared.chat.models import BundledChatModel
from kb_shared.mongo import budgets
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database
from kb_shared.prices import NANO_USD, ModelPrice
from tests.integration.runs.conftest import Author
from tests.integration.search.conftest import ORGANIZATION
from tests.scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("within_a_month")

QUESTION = [{"role": "user", "content": "x"}]
UNPRICED = "gpt-unpriced"


@pytest.fixture
def settings(model_server: ModelServerProcess, scripted: ScriptedModel) -> SearchSettings:
    return SearchSettings(
        local_models_api_base=model_server.api_base,
        chat_patience_s=60,
        chat_timeout_s=600,
        run_max_seconds=600,
        model_prices={scripted.name: ModelPrice(prompt=1_000, completion=10_000)},
    )


async def limit(database: Database, usd: float) -> None:
    await budgets.set_limits(database, ORGANIZATION, BudgetLimits(hard_nano_usd=round(usd * NANO_USD)))


async def ask(author: Author, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await author.ask("POST", "/runs", {"messages": QUESTION} | body)
    return answer.status_code, answer.json()


async def test_a_run_whose_model_may_cost_more_than_is_left_is_refused_and_a_smaller_one_is_not(
    author: Author, scripted: ScriptedModel, search_database: Database
) -> None:
    await scripted.says({"text": "So.", "prompt_tokens": 100, "completion_tokens": 10})
    await limit(search_database, 5)
    status, refusal = await ask(author, model=scripted.name)
    assert (status, refusal["type"]) == (402, "budget-exhausted")
    assert "of 5 USD" in refusal["detail"]
    assert (await author.ask("GET", f"/runs/{refusal['run_id']}")).json()["error"]["type"] == "budget-exhausted"
    status, run = await ask(author, model=scripted.name, budget={"max_tokens": 500})
    assert (status, run["cost_usd"]) == (200, pytest.approx(0.2))
    budget = await budgets.find(search_database, ORGANIZATION)
    assert budget is not None
    assert (budget.used_nano_usd, budget.reserved_nano_usd) == (200_000_000, 0)


async def test_a_chat_model_without_a_known_price_is_refused_before_a_run_begins(
    author: Author, chat: Chat, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-unused")
    chat.catalogue._bundled = {UNPRICED: BundledChatModel("openai", None, None, None, None, takes_schema=False)}
    agent = await author.make("/agents", name="A", model=UNPRICED)
    await limit(search_database, 5)
    asked: list[tuple[str, Any]] = [
        ("/runs", {"messages": QUESTION, "model": UNPRICED}),
        ("/runs", {"messages": QUESTION, "agent_id": agent["agent_id"]}),
        ("/agents", {"name": "B", "model": UNPRICED}),
        ("/prompts", {"name": "P", "content": "What?", "model": UNPRICED}),
    ]
    for path, body in asked:
        answer = await author.ask("POST", path, body)
        assert (answer.status_code, answer.json()["type"]) == (422, "unknown-price"), path
        assert "KB_MODEL_PRICES" in answer.json()["detail"]
    assert (await author.ask("GET", "/runs")).json()["total_count"] == 0
