"""Prompts, agents and conversations over HTTP: what may be said of them, what is changed, and what goes with them."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from kb_contracts.api.runs import MAX_ITERATIONS
from kb_contracts.api.search import MAX_TOP_K
from kb_local.python_server import SearchNodeProcess
from kb_search.bootstrap import build
from kb_search.settings import SearchSettings
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo.database import Database
from tests.integration.runs.conftest import Author
from tests.integration.search.conftest import ORGANIZATION
from tests.integration.search.knowledge import Knowledge, create
from tests.scripted_model import ScriptedModel
from tests.waiting import until

QUESTION = [{"role": "user", "content": "What is a fence?"}]
DEMO = "demo-extractive"


async def changed(author: Author, path: str, **body: Any) -> Any:
    answer = await author.ask("PUT", path, body)
    assert answer.status_code == 200, answer.text
    assert (await author.ask("GET", path)).json() == answer.json()
    return answer.json()


async def deleted(author: Author, path: str) -> None:
    answer = await author.ask("DELETE", path)
    assert (answer.status_code, "deleted" in answer.json()["message"]) == (200, True)
    assert (await author.ask("GET", path)).status_code == 404
    assert (await author.ask("DELETE", path)).status_code == 404


async def test_a_prompt_is_changed_in_what_is_named_and_deleted(
    author: Author, knowledge: Knowledge, scripted: ScriptedModel, search_database: Database
) -> None:
    other = await create(search_database, ORGANIZATION, name="Other")
    schema = {"type": "object", "required": ["a"]}
    made = await author.make("/prompts", name="P", content="What?", model=DEMO, kb_id=knowledge.kb.kb_id, schema=schema)
    kept = await author.make("/prompts", name="Kept", content="What?", model=DEMO)
    path = f"/prompts/{made['prompt_id']}"
    assert (made["kb_id"], made["kb_ids"]) == (knowledge.kb.kb_id, [knowledge.kb.kb_id])
    after = await changed(author, path, name="Q", kb_ids=[other.kb.kb_id], model=scripted.name)
    assert after == made | {
        "name": "Q",
        "kb_id": None,
        "kb_ids": [other.kb.kb_id],
        "model": scripted.name,
        "updated_at": after["updated_at"],
    }
    after = await changed(author, path, content="Why?", schema=None)
    assert (after["name"], after["content"], after["schema"]) == ("Q", "Why?", None)
    after = await changed(author, path, kb_id=knowledge.kb.kb_id)
    assert (after["kb_id"], after["kb_ids"]) == (knowledge.kb.kb_id, [knowledge.kb.kb_id])
    await deleted(author, path)
    listed = (await author.ask("GET", "/prompts")).json()
    assert [each["prompt_id"] for each in listed["prompts"]] == [kept["prompt_id"]]


async def test_an_agent_is_changed_in_what_is_named_and_deleted(author: Author, knowledge: Knowledge) -> None:
    made = await author.make("/agents", name="A", instructions="Be brief.", model=DEMO)
    kept = await author.make("/agents", name="Kept", model=DEMO)
    path = f"/agents/{made['agent_id']}"
    made = await author.make(f"{path}/knowledge-base-tools", kb_id=knowledge.kb.kb_id)
    after = await changed(author, path, name="B", max_iterations=MAX_ITERATIONS)
    assert after == made | {"name": "B", "max_iterations": MAX_ITERATIONS, "updated_at": after["updated_at"]}
    assert (await changed(author, path, instructions="Be kind."))["instructions"] == "Be kind."
    await deleted(author, path)
    listed = (await author.ask("GET", "/agents")).json()
    assert [each["agent_id"] for each in listed["agents"]] == [kept["agent_id"]]


async def test_a_conversation_is_deleted_with_its_runs_and_no_others(author: Author) -> None:
    one, other = [await author.make("/threads", title=title) for title in ("One", "Other")]
    of_one, of_other, of_none = [
        await author.run(messages=QUESTION, model=DEMO, **thread)
        for thread in ({"thread_id": one["thread_id"]}, {"thread_id": other["thread_id"]}, {})
    ]
    await deleted(author, f"/threads/{one['thread_id']}")
    found = [(await author.ask("GET", f"/runs/{run['run_id']}")).status_code for run in (of_one, of_other, of_none)]
    assert found == [404, 200, 200]
    assert (await author.ask("GET", "/threads")).json()["total_count"] == 1


@pytest.mark.parametrize(("path", "field"), [("/threads", "threads"), ("/runs", "runs")])
async def test_conversations_and_runs_are_read_page_by_page_with_cursors(author: Author, path: str, field: str) -> None:
    for n in range(3):
        thread = await author.make("/threads", title=f"{n}")
        await author.run(messages=QUESTION, model=DEMO, thread_id=thread["thread_id"])
    whole = (await author.ask("GET", path)).json()[field]
    first = (await author.ask("GET", f"{path}?limit=2")).json()
    await author.make("/threads", title="later")
    second = (await author.ask("GET", f"{path}?limit=2&cursor={first['next_cursor']}")).json()
    assert first[field] + second[field] == whole
    assert (len(whole), second["next_cursor"]) == (3, None)
    assert (await author.ask("GET", f"{path}?skip=1&cursor={first['next_cursor']}")).status_code == 422


@pytest.mark.parametrize(
    ("field", "bounds", "outside"),
    [("default_top_k", (1, MAX_TOP_K), (0, MAX_TOP_K + 1)), ("default_min_score", (0.0, 1.0), (-0.01, 1.01))],
)
async def test_defaults_of_a_tool_have_bounds(
    author: Author, knowledge: Knowledge, field: str, bounds: tuple[float, float], outside: tuple[float, float]
) -> None:
    agent = await author.make("/agents", name="A", model=DEMO)
    path = f"/agents/{agent['agent_id']}/knowledge-base-tools"
    for wrong in outside:
        refused = await author.ask("POST", path, {"kb_id": knowledge.kb.kb_id, field: wrong})
        assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, field)
    least, most = bounds
    [tool] = (await author.make(path, kb_id=knowledge.kb.kb_id, **{field: least}))["tools"]
    assert tool[field] == least
    for wrong in outside:
        refused = await author.ask("PATCH", f"{path}/{tool['tool_id']}", {field: wrong})
        assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, field)
    [tool] = (await author.ask("PATCH", f"{path}/{tool['tool_id']}", {field: most})).json()["tools"]
    assert tool[field] == most


async def test_iterations_have_bounds_wherever_they_are_set(author: Author) -> None:
    agent = await author.make("/agents", name="A", model=DEMO, max_iterations=1)
    places: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/agents", {"name": "A", "model": DEMO}),
        ("PUT", f"/agents/{agent['agent_id']}", {}),
        ("POST", "/runs", {"messages": QUESTION, "model": DEMO}),
    ]
    for method, path, body in places:
        for iterations, expected in [(0, False), (1, True), (MAX_ITERATIONS, True), (MAX_ITERATIONS + 1, False)]:
            answer = await author.ask(method, path, {**body, "max_iterations": iterations})
            assert answer.is_success is expected, (method, path, iterations)
            if not expected:
                assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "max_iterations")


async def test_a_search_service_creates_the_index_that_keeps_runs_for_ninety_days(
    search_database: Database, search_node: SearchNodeProcess
) -> None:
    async def lifetimes() -> list[timedelta]:
        indexes = await search_database["runs"].index_information()
        seconds = [each["expireAfterSeconds"] for each in indexes.values() if each["key"] == [("started_at", 1)]]
        return [timedelta(seconds=each) for each in seconds]

    async def is_there() -> bool:
        return bool(await lifetimes())

    settings = SearchSettings(mongo_uri=search_node.uri, mongo_database=search_database.name)
    async with build(settings, asyncio.Event()):
        await until(is_there)
    assert await lifetimes() == [timedelta(days=90)]


async def test_editors_of_a_prompt_or_an_agent_do_not_overwrite_each_other(
    author: Author, knowledge: Knowledge
) -> None:
    prompt = await author.make("/prompts", name="P", content="What?", model=DEMO)
    agent = await author.make("/agents", name="A", model=DEMO)
    for path in (f"/prompts/{prompt['prompt_id']}", f"/agents/{agent['agent_id']}"):
        read = (await author.ask("GET", path)).headers["etag"]
        answers = await run_all(author.ask("PUT", path, {"name": f"of {n}"}, if_match=read) for n in range(4))
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
        [winner] = [answer for answer in answers if answer.status_code == 200]
        assert (await author.ask("GET", path)).headers["etag"] == winner.headers["etag"] != read
        assert (await author.ask("PUT", path, {"name": "any"})).status_code == 200
    tools = f"/agents/{agent['agent_id']}/knowledge-base-tools"
    added = await author.ask("POST", tools, {"kb_id": knowledge.kb.kb_id})
    tool = f"{tools}/{added.json()['tools'][0]['tool_id']}"
    stale = added.headers["etag"]
    assert (await author.ask("PATCH", tool, {"tool_name": "a"}, if_match=stale)).status_code == 200
    assert (await author.ask("PATCH", tool, {"tool_name": "b"}, if_match=stale)).status_code == 412


async def test_a_repeated_request_creates_a_prompt_an_agent_a_tool_and_a_conversation_once(
    author: Author, knowledge: Knowledge, search_database: Database
) -> None:
    agent = await author.make("/agents", name="A", model=DEMO)
    bodies = {
        "/prompts": {"name": "P", "content": "c", "model": DEMO, "schema": {"type": "object"}},
        "/agents": {"name": "B", "model": DEMO},
        "/threads": {"title": "t"},
        f"/agents/{agent['agent_id']}/knowledge-base-tools": {"kb_id": knowledge.kb.kb_id},
    }
    for path, body in bodies.items():
        first, second = [await author.ask("POST", path, body, idempotency_key=path) for _ in range(2)]
        assert (first.status_code, second.status_code, second.json()) == (201, 201, first.json()), first.text
    counts = [await search_database[name].count_documents({}) for name in ("prompts", "agents", "threads")]
    assert counts == [1, 2, 1]


async def test_a_repeated_request_begins_a_run_once(
    author: Author, scripted: ScriptedModel, search_database: Database
) -> None:
    body = {"messages": QUESTION, "model": DEMO}
    first, second = [await author.ask("POST", "/runs", body, idempotency_key="run") for _ in range(2)]
    assert (first.status_code, second.json()) == (200, first.json())
    assert await search_database["runs"].count_documents({}) == 1
