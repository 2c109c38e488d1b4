"""A deployment that names its chat models pays for no other model."""

from typing import Any

import pytest

from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import Chat
from tests.integration.runs.conftest import Author
from tests.scripted_model import ScriptedModel

DEMO = "demo-extractive"
ALLOWED = (DEMO, "scripted-*")
QUESTION = [{"role": "user", "content": "x"}]


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(local_models_api_base=model_server.api_base, chat_models=ALLOWED, chat_model=DEMO)


@pytest.mark.parametrize("model", ["gpt-4o", "demo-extractive-2", "no such model"])
async def test_a_model_that_is_not_allowed_is_refused_wherever_it_is_named(author: Author, model: str) -> None:
    agent = await author.make("/agents", name="A")
    prompt = await author.make("/prompts", name="P", content="What?")
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/agents", {"name": "B", "model": model}),
        ("PUT", f"/agents/{agent['agent_id']}", {"model": model}),
        ("POST", "/prompts", {"name": "Q", "content": "What?", "model": model}),
        ("PUT", f"/prompts/{prompt['prompt_id']}", {"model": model}),
        ("POST", "/runs", {"messages": QUESTION, "model": model}),
    ]
    for method, path, body in requests:
        answer = await author.ask(method, path, body)
        refusal = answer.json()
        assert (answer.status_code, refusal["type"]) == (422, "model-not-allowed"), path
        assert refusal["allowed_models"] == list(ALLOWED)
    assert (await author.ask("GET", "/agents")).json()["agents"] == [agent]
    assert (await author.ask("GET", "/runs")).json()["total_count"] == 0


async def test_a_model_that_a_pattern_allows_can_be_used(author: Author, scripted: ScriptedModel) -> None:
    await scripted.says({"text": "Yes."})
    agent = await author.make("/agents", name="A", model=scripted.name)
    assert (await author.run(messages=QUESTION, agent_id=agent["agent_id"]))["answer"] == "Yes."


async def test_an_agent_whose_model_is_no_longer_allowed_is_not_run_and_can_be_given_another(
    author: Author, chat: Chat, scripted: ScriptedModel
) -> None:
    agent = await author.make("/agents", name="A", model=scripted.name)
    chat.catalogue._allowed = (DEMO,)
    refused = await author.ask("POST", "/runs", {"messages": QUESTION, "agent_id": agent["agent_id"]})
    assert (refused.status_code, refused.json()["type"]) == (422, "model-not-allowed")
    changed = await author.ask("PUT", f"/agents/{agent['agent_id']}", {"model": DEMO})
    assert changed.status_code == 200
