"""A run that searches before the model speaks: the model can cite what it never searched for."""

from typing import Any

import pytest

from tests.integration.runs.conftest import FENCE, Author, streamed
from tests.integration.runs.test_runs import QUESTION, search
from tests.integration.runs.test_streaming import events
from tests.integration.search.knowledge import Knowledge
from tests.scripted_model import ScriptedModel

ANSWER = {"text": "It is a write [1]."}


@pytest.fixture
async def agent(author: Author, knowledge: Knowledge, scripted: ScriptedModel) -> Any:
    """An agent with a tool for the facts that searches first."""
    made = await author.make("/agents", name="Facts", model=scripted.name, auto_search=True)
    await author.make(f"/agents/{made['agent_id']}/knowledge-base-tools", kb_id=knowledge.kb.kb_id, default_top_k=1)
    return made


async def test_an_agent_that_never_calls_its_tool_cites_the_right_passage(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    await scripted.says(ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION)

    [citation] = run["citations"]
    assert (citation["document_id"], citation["text"], run["dropped_citations"]) == ("fence", FENCE, 0)
    assert run["iterations"] == 1
    [called] = run["tool_calls"]
    assert (called["call_id"], called["tool"], len(called["passages"])) == ("auto_search_1", "search_facts", 1)
    *_, context, question = run["messages"][:-1]
    assert FENCE in context["content"]
    assert question == QUESTION[-1]


async def test_a_model_that_searches_for_the_question_again_gets_it_from_memory_and_pays_once(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    again = search(QUESTION[-1]["content"])
    again["name"] = "search_facts"
    await scripted.says({"tool_calls": [again]}, ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION)

    assert [(call["from_memory"], call["spus"]) for call in run["tool_calls"]] == [(False, 1), (True, 0)]
    assert run["spus"] == 1


async def test_a_request_decides_over_its_agent(author: Author, agent: Any, scripted: ScriptedModel) -> None:
    await scripted.says(ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, auto_search=False)
    assert (run["tool_calls"], run["citations"], run["dropped_citations"]) == ([], [], 1)


async def test_a_run_whose_first_search_fails_asks_the_model_all_the_same(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    await scripted.says({"text": "I can't say."})
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, budget={"max_spus": 0})
    assert (run["status"], run["answer"]) == ("completed", "I can't say.")
    assert "budget" in run["tool_calls"][0]["problem"]


async def test_the_events_of_the_first_search_come_before_those_of_the_answer(
    served: Author, agent: Any, scripted: ScriptedModel
) -> None:
    await scripted.says(ANSWER)
    async with streamed(served, {"agent_id": agent["agent_id"], "messages": QUESTION}) as answer:
        received = [event async for event in events(answer)]
    names = [name for name, _ in received if name != "answer.delta"]
    assert names == ["run.started", "tool.called", "passage", "tool.returned", "citation", "run.finished"]
