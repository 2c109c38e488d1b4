"""`kb knowledge sources`, `mcp-servers` and `entities`: what they send, and what they print."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_client.command_line import source_runs
from kb_contracts.api.entities import EntityView
from kb_contracts.api.knowledge_sources import KnowledgeSourceView, SourceFile, SourceRunView
from kb_contracts.api.mcp_servers import McpServerView
from tests.unit.client.command_line.answering_api import CommandRunner


def example_of(model: Any) -> dict[str, Any]:
    example: dict[str, Any] = model.model_config["json_schema_extra"]["examples"][0]
    return example


SOURCE, RUN, SERVER = (example_of(model) for model in (KnowledgeSourceView, SourceRunView, McpServerView))
ENTITY, FILE = example_of(EntityView), example_of(SourceFile)
WAITING = RUN | {"status": "waiting", "started_at": None, "finished_at": None, "error": None, "messages": []}
SOURCES = "/knowledge-sources"
SOURCE_PATH = f"{SOURCES}/{SOURCE['source_id']}"
RUN_PATH = f"{SOURCE_PATH}/runs/{RUN['run_id']}"


class SourceServer:
    """Remembers what it is asked to change; a run ends when its states are used up."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.changes: list[tuple[str, str, Any]] = []
        self.states = list(states)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path.removeprefix("/v0/orgs/acme"), request.method
        if method != "GET":
            self.changes.append((method, path, self._read(request)))
        return httpx.Response(200, json=self._answer(method, path))

    def _read(self, request: httpx.Request) -> Any:
        is_json = request.headers.get("content-type") == "application/json"
        return json.loads(request.content) if is_json else request.read()

    def _answer(self, method: str, path: str) -> Any:
        if (method, path) == ("GET", RUN_PATH):
            return self.states.pop(0)
        answers: dict[tuple[str, str], Any] = {
            ("GET", SOURCES): {"sources": [SOURCE], "total_count": 1},
            ("GET", "/mcp-servers"): {"mcp_servers": [SERVER], "total_count": 1},
            ("GET", f"{SOURCE_PATH}/runs"): {"runs": self.states, "total_count": 1},
            ("POST", f"{SOURCES}/files"): FILE,
            ("POST", "/mcp-servers"): SERVER,
            ("POST", f"{SOURCE_PATH}/run"): WAITING,
            ("POST", f"{RUN_PATH}/cancel"): WAITING,
            ("GET", "/entities/user:alice"): ENTITY,
            ("PUT", "/entities/user:alice"): ENTITY,
        }
        return answers.get((method, path), SOURCE)


def test_the_kind_of_a_source_follows_from_what_it_reads(kb: CommandRunner, tmp_path: Path) -> None:
    server, file = SourceServer(), tmp_path / "travel.pdf"
    file.write_bytes(b"%PDF")
    add = ("knowledge", "sources", "add", "Travel")
    assert kb(server.answer, *add, "--url", "https://example.com/", "--depth", "2", "--cron", "0 6 * * *").status == 0
    assert kb(server.answer, *add, "--file", str(file)).status == 0
    assert kb(server.answer, *add, "--mcp-server", "wiki", "--resources", "wiki://*").status == 0
    of_file = {"filename": FILE["filename"], "file_id": FILE["file_id"]}
    of_server = {"mcp_server_id": SERVER["mcp_server_id"], "resource_pattern": "wiki://*"}
    of_url = {"url": "https://example.com/", "depth": 2}
    assert server.changes == [
        (
            "POST",
            SOURCES,
            {"label": "Travel", "kind": "url_crawl", "config": of_url, "cron_expression": "0 6 * * *"},
        ),
        ("POST", f"{SOURCES}/files", b"%PDF"),
        ("POST", SOURCES, {"label": "Travel", "kind": "file_upload", "config": of_file}),
        ("POST", SOURCES, {"label": "Travel", "kind": "mcp", "config": of_server}),
    ]
    for wrong in ((), ("--url", "https://a", "--file", "b"), ("--file", str(file), "--depth", "1")):
        assert kb(server.answer, *add, *wrong).status == 2
    assert len(server.changes) == 4


def test_what_is_not_named_stays_in_the_config_of_a_source(kb: CommandRunner) -> None:
    server = SourceServer()
    edit = ("knowledge", "sources", "edit", "handbook")
    assert kb(server.answer, *edit, "--depth", "3", "--no-cron", "--disable").status == 0
    config = SOURCE["config"] | {"depth": 3}
    assert server.changes == [
        ("PATCH", SOURCE_PATH, {"config": config, "cron_expression": None, "enabled": False}),
    ]
    assert kb(server.answer, *edit).status == 2
    assert "--file is not for a source of the kind url_crawl" in kb(server.answer, *edit, "--file", "x").errors


@pytest.mark.parametrize(("outcome", "status"), [("ok", 0), ("partial", 1), ("error", 1)])
def test_a_run_that_is_waited_for_says_how_it_ended(
    kb: CommandRunner, monkeypatch: pytest.MonkeyPatch, outcome: str, status: int
) -> None:
    monkeypatch.setattr(source_runs, "POLL_S", 0)
    server = SourceServer(WAITING, RUN | {"status": "running"}, RUN | {"status": outcome, "warnings": 3})
    result = kb(server.answer, "knowledge", "sources", "run", SOURCE["source_id"], "--wait")
    assert (result.status, server.states) == (status, [])
    assert RUN["messages"][0] in result.printed
    assert "38 unchanged" in result.printed
    assert "items with warnings" in result.printed


def test_only_a_run_that_has_not_ended_is_cancelled(kb: CommandRunner) -> None:
    cancel = ("knowledge", "sources", "cancel", "Handbook")
    ended, running = SourceServer(RUN), SourceServer(RUN | {"status": "running"})
    assert kb(ended.answer, *cancel).status == 1
    assert kb(running.answer, *cancel, "--output", "ids").printed == f"{RUN['run_id']}\n"
    assert (ended.changes, running.changes) == ([], [("POST", f"{RUN_PATH}/cancel", b"")])


def test_values_of_headers_come_from_the_environment_and_are_not_shown(kb: CommandRunner) -> None:
    server = SourceServer()
    add = ("knowledge", "mcp-servers", "add", "Wiki", "https://wiki.example.com/mcp", "--header-from")
    assert kb(server.answer, *add, "Authorization=KB_TEST_UNSET").status == 1
    assert kb(server.answer, *add, "Authorization").status == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIKI_AUTHORIZATION", "Bearer canary")
        result = kb(server.answer, *add, "Authorization=WIKI_AUTHORIZATION")
    [(_, _, sent)] = server.changes
    assert sent["headers"] == {"Authorization": "Bearer canary"}
    assert "canary" not in result.printed + result.errors


def test_properties_of_an_entity_that_are_not_named_stay(kb: CommandRunner) -> None:
    server = SourceServer()
    named = ("--property", "team=x=y", "--property", "seniority=5", "--remove", "specialization")
    assert kb(server.answer, "knowledge", "entities", "set", "user:alice", *named).status == 0
    properties = {"team": "x=y", "seniority": 5}
    assert server.changes == [
        ("PUT", "/entities/user:alice", {"entity_type": "user", "properties": properties}),
    ]
