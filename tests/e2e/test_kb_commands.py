"""The `kb` command as the README has it: a stack of its own in a folder of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from kb_client.events import EventPublisher
from kb_local.python_server import ModelServerProcess
from kb_local.state import Home
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import MODEL
from tests.waiting import until

KB = str(Path(sys.executable).with_name("kb"))


@dataclass(frozen=True, slots=True)
class CommandLine:
    home: Home
    environment: dict[str, str]

    async def run(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Run one command with `--json`; returns its exit status and what it printed."""
        process = await asyncio.create_subprocess_exec(
            KB, *arguments, "--json", env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return process.returncode or 0, json.loads(output or b"{}")

    def processes(self) -> list[psutil.Process]:
        """Everything of the stack that runs."""
        state = self.home.read_state()
        pids = [state.supervisor_pid, *(each.pid for each in state.processes)]
        return [psutil.Process(pid) for pid in pids if pid is not None and psutil.pid_exists(pid)]


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[CommandLine]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KB_")}
    command_line = CommandLine(Home(tmp_path / ".kb"), {**inherited, "KB_HOME": str(tmp_path / ".kb")})
    yield command_line
    await command_line.run("down")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_what_was_indexed_is_found_again_after_down_and_up(
    kb: CommandLine, model_server: ModelServerProcess
) -> None:
    # Saves the start of a model server, which has tests of its own.
    kb.environment["KB_LOCAL_MODELS_API_BASE"] = model_server.api_base
    document = Upstream("local").ocr("kept", [paragraph("kept")], tags=["a"])

    status, running = await kb.run("up")
    assert status == 0
    assert (await kb.run("status"))[0] == 0
    async with _http(running["base_url"], kb) as http:
        (await http.post("/tags", json={"tag_id": "a", "name": "a"})).raise_for_status()
        created = await http.post("/knowledge-bases", json={"name": "KB", "tag_ids": ["a"], "embedding_model": MODEL})
        search = f"/knowledge-bases/{created.raise_for_status().json()['kb_id']}/search"
        async with EventPublisher(_broker(kb), source="/tests/upstream", idempotence=False) as events:
            await events.publish(document)
        await until(lambda: _finds(http, search, "kept"))

    processes = kb.processes()
    assert processes
    assert (await kb.run("down")) == (0, {"was_running": True, "folder": str(kb.home.folder)})
    assert [process for process in processes if process.is_running()] == []
    assert (await kb.run("status"))[0] == 1

    status, running = await kb.run("up")
    assert status == 0
    async with _http(running["base_url"], kb) as http:
        assert await _finds(http, search, "kept")
        renewed = document.model_copy(update={"document_id": "new", "revision": 2})
        async with EventPublisher(_broker(kb), source="/tests/upstream", idempotence=False) as events:
            await events.publish(renewed)
        await until(lambda: _finds(http, search, "kept", "new"))


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("busy_processes", [0, 2 * (os.cpu_count() or 1)])
async def test_the_demo_answers_its_questions_and_leaves_nothing_running(kb: CommandLine, busy_processes: int) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with keep_cores_busy(busy_processes):
        status, figures = await kb.run("demo")
    assert status == 0
    first, *others = figures["questions"]
    # The question of the README, through an agent whose tool has the defaults.
    assert any(citation["source"].startswith("stamina ") for citation in first["run"]["citations"])
    assert all(each["run"]["citations"] for each in others)
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


@contextmanager
def keep_cores_busy(processes: int) -> Iterator[None]:
    """Run processes that never wait, as if the machine had much else to do."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _http(base_url: str, kb: CommandLine) -> httpx.AsyncClient:
    secrets = kb.home.read_secrets()
    return httpx.AsyncClient(
        base_url=f"{base_url}/v0/orgs/{secrets.organization_id}",
        headers={"Authorization": f"Bearer {secrets.api_key}"},
        timeout=30,
        trust_env=False,
    )


def _broker(kb: CommandLine) -> str:
    return f"127.0.0.1:{kb.home.read_state().ports['broker']}"


async def _finds(http: httpx.AsyncClient, search: str, *document_ids: str) -> bool:
    answer = await http.post(search, json={"query": "anything", "top_k": 20})
    if answer.status_code == 503:
        # The index is still being built.
        return False
    results = answer.raise_for_status().json()["results"]
    return {result["document_id"] for result in results} == set(document_ids)
