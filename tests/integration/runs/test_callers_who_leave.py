"""What is left of a run's work a second after its caller has gone.

The service runs in the event loop of the test, and a second is counted in turns of this loop: a machine that stalls for
longer stalls the count as well, so that slowness of others is not taken for work that goes on.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

import httpx
import pytest

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch
from kb_search.store import runs
from kb_search.store.runs import Run, RunStatus
from kb_shared.chat.chat import Chat
from kb_shared.chat.provider import estimate_message_tokens
from kb_shared.mongo.database import Database
from tests.integration.runs.conftest import FENCE, Author, streamed
from tests.integration.search.conftest import ORGANIZATION
from tests.integration.search.knowledge import MODEL, Knowledge
from tests.scripted_model import ScriptedModel, call
from tests.waiting import until

FOR_EVER_S = 300
HANG_S = 60
"""Duration of an embedding, for which the service waits when it ends, because it is paid for."""
TURN_S = 0.01
TURNS_OF_A_SECOND = 100
SEARCH = {"tool_calls": [call("search_knowledge_base", json.dumps({"query": FENCE}))]}
LONG = "A fence is a write that fails, as passage [1] says, and that is all of it."

P = ParamSpec("P")
T = TypeVar("T")
Caller: TypeAlias = Callable[[Author, Any], AbstractAsyncContextManager[None]]


@dataclass
class OngoingWork:
    """Calls of the model and searches, which is all that a run does."""

    begun: int = 0
    ended: int = 0

    def watched(self, does: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        async def watched(*args: P.args, **kwargs: P.kwargs) -> T:
            self.begun += 1
            try:
                return await does(*args, **kwargs)
            finally:
                self.ended += 1

        return watched

    async def is_at(self, number: int) -> None:
        """Wait until this piece of work is going on."""
        await until(lambda: (self.begun, self.ended) == (number, number - 1), what=f"work {number}")

    async def ends_within_a_second(self) -> bool:
        for _ in range(TURNS_OF_A_SECOND):
            if self.ended == self.begun:
                return True
            await asyncio.sleep(TURN_S)
        return False


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> OngoingWork:
    work = OngoingWork()
    monkeypatch.setattr(Chat, "complete", work.watched(Chat.complete))
    monkeypatch.setattr(KnowledgeBaseSearch, "search_several", work.watched(KnowledgeBaseSearch.search_several))
    return work


@dataclass(frozen=True)
class WatchedRuns:
    """Runs at a real server whose work is seen."""

    author: Author
    scripted: ScriptedModel
    database: Database
    work: OngoingWork
    kb_id: str

    @property
    def body(self) -> dict[str, Any]:
        question = [{"role": "user", "content": "?"}]
        return {"messages": question, "kb_ids": [self.kb_id], "model": self.scripted.name}

    async def status(self) -> RunStatus:
        """Return the status of the only run, once it is over."""
        await until(self._is_over)
        return (await self.run()).status

    async def _is_over(self) -> bool:
        return (await self.run()).status is not RunStatus.RUNNING

    async def run(self) -> Run:
        [run], _ = await runs.page(self.database, ORGANIZATION, runs.RunsWanted(), skip=0, limit=10)
        return run


@pytest.fixture
def watched(
    served: Author, scripted: ScriptedModel, search_database: Database, knowledge: Knowledge, work: OngoingWork
) -> WatchedRuns:
    return WatchedRuns(served, scripted, search_database, work, knowledge.kb.kb_id)


@pytest.fixture
async def hanging_embeddings(model_server: ModelServerProcess) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Let embeddings hang until the test calls what it is given."""
    fault = {"kind": "hang", "hang_s": HANG_S, "model": MODEL}
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS) as http:
        (await http.put("/admin/hash", json={"faults": [fault]})).raise_for_status()
        yield partial(http.delete, "/admin/hash")
        (await http.delete("/admin/hash")).raise_for_status()


@asynccontextmanager
async def follows_events(author: Author, body: Any) -> AsyncIterator[None]:
    async with streamed(author, body) as answer:
        assert answer.status_code == 200
        yield


@asynccontextmanager
async def waits_for_json(author: Author, body: Any) -> AsyncIterator[None]:
    asking = asyncio.create_task(author.ask("POST", "/runs", body))
    yield
    asking.cancel()
    await asyncio.wait({asking})


@pytest.mark.parametrize(
    ("caller", "turn"),
    [
        (follows_events, {"text": LONG, "delay_s": FOR_EVER_S}),
        (follows_events, {"text": LONG, "stall_s": FOR_EVER_S}),
        (waits_for_json, {"text": LONG, "delay_s": FOR_EVER_S}),
    ],
    ids=["stream before the answer", "stream in its middle", "json"],
)
async def test_a_caller_who_leaves_ends_the_call_of_the_model_within_a_second_and_nothing_follows(
    watched: WatchedRuns, caller: Caller, turn: dict[str, Any]
) -> None:
    scripted, work = watched.scripted, watched.work
    await scripted.says(SEARCH, turn)
    async with caller(watched.author, watched.body):
        await work.is_at(3)
        await scripted.wait_for_requests(2)
    assert await work.ends_within_a_second()
    await scripted.wait_until_disconnected()
    assert await watched.status() is RunStatus.CANCELLED
    assert (work.begun, len(await scripted.requests())) == (3, 2), "nothing is begun for a caller who is gone"
    run = await watched.run()
    assert run.iterations == 2
    assert run.prompt_tokens > estimate_message_tokens(run.messages), "what the model was told was paid for, both times"


@pytest.mark.parametrize("caller", [follows_events, waits_for_json], ids=["stream", "json"])
async def test_a_caller_who_leaves_ends_the_search_within_a_second_and_the_model_is_not_asked_again(
    watched: WatchedRuns, caller: Caller, hanging_embeddings: Callable[[], Awaitable[object]]
) -> None:
    scripted, work = watched.scripted, watched.work
    await scripted.says(SEARCH, {"text": LONG})
    async with caller(watched.author, watched.body):
        await work.is_at(2)
    assert await work.ends_within_a_second()
    assert await watched.status() is RunStatus.CANCELLED
    assert (work.begun, len(await scripted.requests())) == (2, 1), "nothing is begun for a caller who is gone"
    # The service waits for the embedding when it ends, since that is paid for.
    await hanging_embeddings()


async def test_a_run_that_another_request_cancels_ends_and_its_caller_is_told(watched: WatchedRuns) -> None:
    scripted, author = watched.scripted, watched.author
    await scripted.says(SEARCH, {"text": LONG, "delay_s": FOR_EVER_S})
    asking = asyncio.create_task(author.ask("POST", "/runs", watched.body))
    await scripted.wait_for_requests(2)
    run = await watched.run()
    asked = await author.ask("POST", f"/runs/{run.run_id}/cancel")
    assert (asked.status_code, asked.json()["status"]) == (202, "running")
    answer = await asking
    assert (answer.status_code, answer.json()["type"], answer.json()["run_id"]) == (409, "run-cancelled", run.run_id)
    await scripted.wait_until_disconnected()
    assert await watched.status() is RunStatus.CANCELLED
    again = await author.ask("POST", f"/runs/{run.run_id}/cancel")
    assert (again.status_code, again.json()["type"]) == (409, "run-ended")
