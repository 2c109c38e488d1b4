"""kb-search shares itself between the organizations that call, whichever way they search."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import httpx
import pytest
from fastapi import FastAPI

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.http.dependencies import get_provided
from tests.fair_queue_load import has_active, has_waiting, hold_turns
from tests.integration.runs.conftest import FENCE, Author, streamed
from tests.integration.search.conftest import ORGANIZATION
from tests.integration.search.knowledge import MODEL, Knowledge
from tests.scripted_model import ScriptedModel, call
from tests.waiting import until

SEARCH = {"tool_calls": [call("search_knowledge_base", json.dumps({"query": FENCE}))]}
ANSWER = {"text": "A fence is a write that fails, as passage [1] says."}
HANG_S = 60.0
"""A test ends each hang itself."""

Ask: TypeAlias = Callable[[Author, str, str], Coroutine[Any, Any, str]]
"""Search by an author in a knowledge base, if need be with a model of that name; return the answer as text."""


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(local_models_api_base=model_server.api_base, http_max_active_of_organization=1)


@pytest.fixture
def queue(app: FastAPI) -> FairQueue:
    return get_provided(app, FairQueue)


async def search(author: Author, kb_id: str, _: str) -> str:
    answer = await author.ask("POST", f"/knowledge-bases/{kb_id}/search", {"query": "a fence"})
    return answer.raise_for_status().text


async def search_over_mcp(author: Author, kb_id: str, _: str) -> str:
    arguments = {"query": "a fence", "kb_ids": [kb_id]}
    called = {"name": "search_knowledge_base", "arguments": arguments}
    answer = await author.http.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called},
        headers={"Authorization": f"Bearer {author.key}", "Accept": "application/json, text/event-stream"},
    )
    return answer.raise_for_status().text


async def run(author: Author, kb_id: str, model: str) -> str:
    return (await author.ask("POST", "/runs", _run(kb_id, model))).raise_for_status().text


async def streamed_run(author: Author, kb_id: str, model: str) -> str:
    async with streamed(author, _run(kb_id, model)) as answer:
        return "".join([piece async for piece in answer.raise_for_status().aiter_text()])


def _run(kb_id: str, model: str) -> Any:
    return {"messages": [{"role": "user", "content": "?"}], "kb_ids": [kb_id], "model": model}


@pytest.mark.parametrize("ask", [search, search_over_mcp, run, streamed_run])
async def test_a_search_waits_for_the_turn_of_its_organization(
    served: Author, knowledge: Knowledge, scripted: ScriptedModel, queue: FairQueue, ask: Ask
) -> None:
    await scripted.says(SEARCH, ANSWER)
    async with hold_turns(queue, ORGANIZATION):
        asking = asyncio.create_task(ask(served, knowledge.kb.kb_id, scripted.name))
        await until(lambda: has_waiting(queue, ORGANIZATION) or asking.done())
        assert not asking.done()
        assert not await scripted.requests()
    assert "fence" in await asking


async def test_while_the_vector_of_a_query_is_waited_for_another_search_is_answered(
    served: Author, knowledge: Knowledge, queue: FairQueue, model_server: ModelServerProcess
) -> None:
    text_search = {"query": "fence", "mode": "text"}
    fault = {"kind": "hang", "hang_s": HANG_S, "model": MODEL}
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS) as http:
        (await http.put("/admin/hash", json={"faults": [fault]})).raise_for_status()
        async with hold_turns(queue, "another"):
            hanging = asyncio.create_task(search(served, knowledge.kb.kb_id, ""))
            await until(lambda: has_active(queue, ORGANIZATION))
            answer = await served.ask("POST", f"/knowledge-bases/{knowledge.kb.kb_id}/search", text_search)
            assert not hanging.done()
            assert answer.json()["results"]
            (await http.delete("/admin/hash")).raise_for_status()
            assert "fence" in await hanging


@pytest.mark.parametrize("ask", [run, streamed_run])
async def test_while_a_model_thinks_a_search_is_answered(
    served: Author, knowledge: Knowledge, scripted: ScriptedModel, queue: FairQueue, ask: Ask
) -> None:
    await scripted.says(SEARCH, ANSWER | {"delay_s": HANG_S})
    async with hold_turns(queue, "another"):
        thinking = asyncio.create_task(ask(served, knowledge.kb.kb_id, scripted.name))
        await scripted.wait_for_requests(2)
        assert "fence" in await search(served, knowledge.kb.kb_id, "")
        assert not thinking.done()
        await scripted.release_answers()
        assert "fence" in await thinking


@pytest.mark.parametrize("ask", [run, streamed_run])
async def test_a_run_goes_on_after_an_answer_of_its_model_when_it_has_its_turn_again(
    served: Author, knowledge: Knowledge, scripted: ScriptedModel, queue: FairQueue, ask: Ask
) -> None:
    await scripted.says(SEARCH | {"delay_s": HANG_S}, ANSWER)
    running = asyncio.create_task(ask(served, knowledge.kb.kb_id, scripted.name))
    await scripted.wait_for_requests(1)
    async with hold_turns(queue, ORGANIZATION):
        await scripted.release_answers()
        await until(lambda: has_waiting(queue, ORGANIZATION) or running.done())
        assert not running.done()
        assert len(await scripted.requests()) == 1
    assert "fence" in await running
