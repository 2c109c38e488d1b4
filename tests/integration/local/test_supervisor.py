import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_contracts.topics import TOPICS
from kb_local import stack as stack_module
from kb_local import supervisor as supervisor_module
from kb_local.errors import LocalStackError
from kb_local.stack import Stack
from kb_local.state import ProcessState, StackState
from kb_local.supervisor import LONGEST_BACKOFF_S, Supervisor, backoff_s
from kb_local.zygote import Zygote
from tests.integration.local.conftest import NO_MODELS, PACKAGES, living
from tests.waiting import until


@dataclass(slots=True)
class Supervised:
    """A stack under its supervisor, and all the states that it reported."""

    stack: Stack
    states: list[StackState] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    running: "asyncio.Task[None] | None" = None

    def begin(self) -> None:
        supervisor = Supervisor(self.stack, on_change=self.states.append)
        self.running = asyncio.create_task(supervisor.run(self.stop))

    async def end(self) -> None:
        assert self.running is not None
        self.stop.set()
        with contextlib.suppress(LocalStackError):
            await self.running

    async def until(self, holds: Callable[[StackState], bool]) -> StackState:
        def held() -> bool:
            return bool(self.states) and holds(self.states[-1])

        try:
            await until(held)
        except TimeoutError:
            raise TimeoutError(self.states[-1].model_dump_json(indent=1)) from None
        return self.states[-1]

    async def until_ready(self) -> StackState:
        return await self.until(
            lambda state: state.phase == "ready" and all(each.condition == "ready" for each in state.processes)
        )

    async def until_restarted(self, *names: str) -> StackState:
        return await self.until(
            lambda state: all(
                process(state, name).restarts > 0 and process(state, name).condition == "ready" for name in names
            )
        )

    def pids(self) -> list[int]:
        return [each.pid for state in self.states for each in state.processes if each.pid is not None]


def process(state: StackState, name: str) -> ProcessState:
    return next(each for each in state.processes if each.name == name)


def kill(state: StackState, name: str) -> None:
    pid = process(state, name).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def make_supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Supervised]]:
    """Gives a supervised stack, and checks at the end that it left no process."""
    monkeypatch.setattr(stack_module, "PRODUCERS", {"kb_dummy"})
    monkeypatch.setattr(supervisor_module, "PRODUCERS", {"kb_dummy"})
    monkeypatch.setattr(supervisor_module, "FIRST_BACKOFF_S", 0.05)
    made: list[Supervised] = []

    def make(**options: Any) -> Supervised:
        stack = Stack(tmp_path / ".kb", services=["kb_dummy"], models_api_base=NO_MODELS, **options)
        made.append(Supervised(stack))
        made[-1].begin()
        return made[-1]

    yield make
    for supervised in made:
        await supervised.end()
        assert living(supervised.pids()) == []


@pytest.fixture
async def supervised(make_supervised: Callable[..., Supervised], light_zygote: Zygote) -> Supervised:
    supervised = make_supervised(zygote=light_zygote, env={"KB_DUMMY_COUNTS_TOPICS": "1"})
    await supervised.until_ready()
    return supervised


async def test_a_crashed_service_is_restarted_and_nothing_else_is(supervised: Supervised) -> None:
    before = supervised.states[-1]
    kill(before, "kb-dummy")
    after = await supervised.until_restarted("kb-dummy")
    assert process(after, "kb-dummy").last_exit == "killed by SIGKILL"
    assert process(after, "kb-dummy").port == process(before, "kb-dummy").port
    changed = [new.name for old, new in zip(before.processes, after.processes, strict=True) if old.pid != new.pid]
    assert changed == ["kb-dummy"]


async def test_a_crashed_mongod_comes_back_with_its_data(supervised: Supervised) -> None:
    async with AsyncMongoClient[dict[str, Any]](supervised.stack.mongo_uri, w="majority") as client:
        await client.test.things.insert_one({})
        kill(supervised.states[-1], "mongod")
        await supervised.until_restarted("mongod")
        assert await client.test.things.count_documents({}) == 1


@pytest.mark.long
async def test_a_crashed_broker_has_its_topics_again_before_a_producer_runs(supervised: Supervised) -> None:
    kill(supervised.states[-1], "broker")
    state = await supervised.until_restarted("broker")
    log = supervised.stack.services["kb_dummy"].log.read_text().splitlines()
    assert [line for line in log if line.startswith("topics")] == [f"topics at start: {len(TOPICS)}"] * 2
    assert process(state, "kb-dummy").restarts == 0


@pytest.mark.long
async def test_a_crashed_zygote_comes_back_and_its_services_with_it(
    make_supervised: Callable[..., Supervised], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    monkeypatch.setattr("kb_local.zygote.PRELOADED", ())
    supervised = make_supervised()
    kill(await supervised.until_ready(), "zygote")
    await supervised.until_restarted("zygote", "kb-dummy")


async def test_a_stop_in_the_middle_of_the_start_leaves_no_process(
    make_supervised: Callable[..., Supervised], light_zygote: Zygote
) -> None:
    supervised = make_supervised(zygote=light_zygote)
    await supervised.until(lambda state: any(each.pid for each in state.processes))
    await supervised.end()
    assert supervised.states[-1].phase == "stopped"


async def test_a_start_that_fails_is_reported_with_its_remedy(
    make_supervised: Callable[..., Supervised], light_zygote: Zygote
) -> None:
    supervised = make_supervised(zygote=light_zygote, env={"KB_DUMMY_EXIT": "3"})
    state = await supervised.until(lambda state: state.phase == "failed")
    assert state.failure is not None
    assert "kb-dummy.log" in state.failure.remedy


def test_the_pause_before_a_restart_grows_up_to_a_limit() -> None:
    pauses = [backoff_s(failures) for failures in range(20)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1
    assert pauses[-1] == LONGEST_BACKOFF_S
