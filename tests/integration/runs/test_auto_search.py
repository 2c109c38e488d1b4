"""A run that searches before the model speaks: the model can cite what it never searched for."""

from typing import Any

import pytest

from tests.integration.runs.conftest import FENCE, Author, streamed
from tests.integration.runs.test_runs import QUESTION
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
    assert run["grounded"] == "cited"
    *_, asked, _ = run["messages"]
    assert asked["content"].index(f"> {FENCE}") < asked["content"].index(f"Question: {QUESTION[-1]['content']}")
    [request] = await scripted.requests()
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert (request.get("tools"), request["temperature"]) == (None, 0.2)


@pytest.mark.parametrize("auto_search", [True, False])
@pytest.mark.parametrize(
    "first",
    [
        {"text": "It is a wooden thing."},
        {"text": ""},
        {"tool_calls": [{"name": "search_facts", "arguments": '{"question": "fence"}'}]},
        {"tool_calls": [{"name": "no_tool", "arguments": "{}"}]},
    ],
)
async def test_no_answer_counts_that_was_given_without_a_search(
    author: Author, agent: Any, scripted: ScriptedModel, first: dict[str, Any], auto_search: bool
) -> None:
    turns = [first, {"text": "It is a wooden thing."}] if "tool_calls" in first and not auto_search else [first]
    await scripted.says(*([] if auto_search else turns), ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, auto_search=auto_search)
    assert (run["answer"], run["grounded"]) == (ANSWER["text"], "cited")
    assert run["tool_calls"][-1]["call_id"] == "auto_search_1"
    assert "wooden" not in str(run["messages"]), "a model repeats what it has said"
    *_, last = await scripted.requests()
    assert "tools" not in last
    assert f"> {FENCE}" in last["messages"][-1]["content"]


async def test_a_call_that_is_written_as_text_is_made_and_never_shown(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    written = {"text": '{"name": "search_facts", "arguments": {"query": "fence"}}'}
    await scripted.says(written, ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, auto_search=False)
    assert (run["answer"], run["grounded"]) == (ANSWER["text"], "cited")
    await scripted.says(written, ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION)
    assert (run["answer"], run["iterations"]) == (ANSWER["text"], 2), "without tools it is sent back"


async def test_a_second_answer_without_a_citation_is_taken_and_says_what_it_rests_on(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    await scripted.says({"text": "The documents do not say it."})
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, auto_search=False)
    assert (run["status"], run["grounded"], run["iterations"], run["spus"]) == ("completed", "received", 2, 1)
    alone = await author.run(messages=QUESTION, model=scripted.name)
    assert (alone["grounded"], alone["iterations"]) == ("none", 1)
    assert (await author.ask("GET", f"/runs/{run['run_id']}")).json()["grounded"] == "received"


async def test_an_answer_that_does_not_count_is_not_streamed(
    served: Author, agent: Any, scripted: ScriptedModel
) -> None:
    await scripted.says({"text": "It is a wooden thing."}, ANSWER)
    body = {"agent_id": agent["agent_id"], "messages": QUESTION, "auto_search": False}
    async with streamed(served, body) as answer:
        received = [event async for event in events(answer)]
    assert "".join(data["text"] for name, data in received if name == "answer.delta") == ANSWER["text"]


async def test_a_follow_up_is_searched_with_the_question_before_it(
    author: Author, agent: Any, scripted: ScriptedModel
) -> None:
    thread = await author.make("/threads", title="T")
    for question in ("What is a fence?", "And what does it do?"):
        await scripted.says(ANSWER)
        messages = [{"role": "user", "content": question}]
        run = await author.run(agent_id=agent["agent_id"], messages=messages, thread_id=thread["thread_id"])
    assert run["tool_calls"][0]["arguments"] == '{"query": "What is a fence? And what does it do?"}'
    conversation = [
        {"role": "user", "content": "What is a fence?"},
        {"role": "assistant", "content": "It is a write [1]."},
        {"role": "user", "content": "And what does it do?"},
    ]
    await scripted.says(ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=conversation)
    assert run["tool_calls"][0]["arguments"] == '{"query": "What is a fence? And what does it do?"}'
    assert run["messages"][2]["content"] == "It is a write."


async def test_an_agent_says_how_its_model_writes(author: Author, agent: Any, scripted: ScriptedModel) -> None:
    settings = {"temperature": 0.7, "max_output_tokens": 55}
    changed = await author.ask("PUT", f"/agents/{agent['agent_id']}", settings)
    assert {name: changed.json()[name] for name in settings} == settings
    await scripted.says(ANSWER)
    await author.run(agent_id=agent["agent_id"], messages=QUESTION)
    [request] = await scripted.requests()
    assert (request["temperature"], request["max_completion_tokens"]) == (0.7, 55)
    refused = await author.ask("PUT", f"/agents/{agent['agent_id']}", {"temperature": 3})
    assert refused.status_code == 422


async def test_a_request_decides_over_its_agent(author: Author, agent: Any, scripted: ScriptedModel) -> None:
    called = {"tool_calls": [{"name": "search_facts", "arguments": '{"query": "bread"}'}]}
    await scripted.says(called, ANSWER)
    run = await author.run(agent_id=agent["agent_id"], messages=QUESTION, auto_search=False)
    assert [call["arguments"] for call in run["tool_calls"]] == ['{"query": "bread"}']


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
