"""`kb prompts`, `kb agents` and `kb providers`: what they send, and what they never print."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.client.command_line.answering_api import ENVIRONMENT, KB_ID, KNOWLEDGE_BASE, CommandRunner

CHANGES = {
    "created_at": "2026-01-31T00:00:00Z",
    "updated_at": "2026-01-31T00:00:00Z",
    "created_by": "a",
    "updated_by": "a",
}
PROMPT: dict[str, Any] = CHANGES | {
    "prompt_id": "5" * 24,
    "name": "Hotel costs",
    "content": "What may a hotel cost?\n",
    "model": "m",
    "schema": {"type": "object"},
    "kb_id": None,
    "kb_ids": [KB_ID],
}
TOOL: dict[str, Any] = {
    "tool_id": "8" * 24,
    "type": "knowledge_base",
    "kb_id": KB_ID,
    "kb_name": "handbook",
    "tool_name": "search_handbook",
    "tool_description": "Search handbook",
    "default_top_k": 5,
    "default_min_score": None,
    "is_broken": False,
}
AGENT: dict[str, Any] = CHANGES | {
    "agent_id": "6" * 24,
    "name": "Support",
    "instructions": "Answer briefly.",
    "model": "m",
    "max_iterations": None,
    "tools": [TOOL],
}
PROVIDER: dict[str, Any] = {
    "provider": "openai",
    "api_key_last4": "9876",
    "api_base": None,
    "requests_per_minute": 3000,
    "tokens_per_minute": None,
    "paused_at": None,
    "updated_at": "2026-01-31T00:00:00Z",
    "updated_by": "a",
}
LISTS = {
    "prompts": {"prompts": [PROMPT], "total_count": 1},
    "agents": {"agents": [AGENT], "total_count": 1},
    "knowledge-bases": {"knowledge_bases": [KNOWLEDGE_BASE], "total_count": 1},
    "llm-providers": {"llm_providers": [PROVIDER], "total_count": 1},
}


class StoredApi:
    """Answers with one resource of each kind, and keeps the changes that it was asked to make."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, Any]] = []
        self.if_match: str | None = None

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0/orgs/acme/")
        kind = path.split("/")[0]
        one = {"prompts": PROMPT, "agents": AGENT, "llm-providers": PROVIDER}.get(kind)
        if request.method == "GET":
            return httpx.Response(200, json=LISTS[kind] if "/" not in path else one, headers={"ETag": '"7"'})
        self.changes.append((f"{request.method} {path}", json.loads(request.content or "null")))
        self.if_match = request.headers.get("If-Match")
        return httpx.Response(200, json={"message": "done"} if request.method == "DELETE" else one)


@pytest.fixture
def api() -> StoredApi:
    return StoredApi()


@pytest.mark.parametrize("kind", ["prompts", "agents"])
def test_what_show_prints_as_json_can_be_created_again(
    api: StoredApi, kb: CommandRunner, tmp_path: Path, kind: str
) -> None:
    shown = kb(api.answer, kind, "show", LISTS[kind][kind][0]["name"].upper(), "--json")  # type: ignore[index]  # lists
    (file := tmp_path / "copy.json").write_text(shown.printed)
    result = kb(api.answer, kind, "create", "Copy", "--file", str(file))
    assert result.status == 0, result.errors
    if kind == "prompts":
        kept = {name: PROMPT[name] for name in ("content", "model", "schema", "kb_ids")}
        assert api.changes == [("POST prompts", {"name": "Copy", "auto_search": False, "injection": None} | kept)]
    else:
        settings: dict[str, Any] = {"name": "Copy", "instructions": "Answer briefly.", "model": "m"}
        settings |= {"max_iterations": None, "auto_search": False, "injection": None}
        settings |= {"temperature": None, "max_output_tokens": None}
        tool = {name: TOOL[name] for name in ("kb_id", "tool_name", "tool_description", "default_top_k")}
        assert api.changes == [
            ("POST agents", settings),
            (f"POST agents/{AGENT['agent_id']}/knowledge-base-tools", tool),
        ]


def test_options_count_more_than_the_file_and_knowledge_bases_have_names(
    api: StoredApi, kb: CommandRunner, tmp_path: Path
) -> None:
    (file := tmp_path / "prompt.json").write_text('{"name": "A", "content": "old", "kb_ids": ["0"]}')
    kb(api.answer, "prompts", "create", "--file", str(file), "--content-file", "-", "--kb", "handbook", piped="new")
    assert api.changes == [("POST prompts", {"name": "A", "content": "new", "kb_ids": [KB_ID]})]


def test_a_file_with_unknown_fields_creates_nothing(api: StoredApi, kb: CommandRunner, tmp_path: Path) -> None:
    (file := tmp_path / "agent.json").write_text('{"name": "A", "instruction": "typing error"}')
    result = kb(api.answer, "agents", "create", "--file", str(file))
    assert (result.status, api.changes) == (1, [])
    assert "unknown fields: instruction; there are: auto_search, injection, instructions," in result.errors


@pytest.mark.parametrize(("kind", "field"), [("prompts", "content"), ("agents", "instructions")])
def test_without_options_an_editor_opens_and_the_change_is_meant_for_what_it_showed(
    api: StoredApi, kb: CommandRunner, monkeypatch: pytest.MonkeyPatch, *, kind: str, field: str
) -> None:
    program = "import sys, pathlib; path = pathlib.Path(sys.argv[1]); path.write_text(path.read_text().upper())"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", program]))
    before: dict[str, Any] = LISTS[kind][kind][0]  # type: ignore[index]  # lists
    result = kb(api.answer, kind, "edit", before["name"], typed=" ")
    assert result.status == 0, result.errors
    ((_, change),) = api.changes
    assert (change, api.if_match) == ({field: before[field].upper()}, '"7"')


def test_without_a_terminal_an_edit_needs_options(api: StoredApi, kb: CommandRunner) -> None:
    result = kb(api.answer, "agents", "edit", "Support")
    assert (result.status, api.changes) == (1, [])
    assert "say what to change" in result.errors


def test_tools_are_found_by_their_names(api: StoredApi, kb: CommandRunner) -> None:
    tool = f"agents/{AGENT['agent_id']}/knowledge-base-tools/{TOOL['tool_id']}"
    kb(api.answer, "agents", "tools", "edit", "Support", "search_handbook", "--top", "8", "--no-min-score")
    assert api.changes == [(f"PATCH {tool}", {"default_top_k": 8, "default_min_score": None})]
    assert "has no tool 'x'" in kb(api.answer, "agents", "tools", "remove", "Support", "x").errors


@pytest.mark.parametrize("options", [["--key-from", "MY_KEY"], []])
def test_the_key_of_a_provider_comes_from_elsewhere_than_the_arguments_and_is_never_printed(
    api: StoredApi, kb: CommandRunner, options: list[str]
) -> None:
    key = "sk-secret-4321"
    environment = ENVIRONMENT | {"MY_KEY": key}
    result = kb(api.answer, "providers", "set", "openai", *options, environment=environment, piped=f"{key}\n")
    assert result.status == 0, result.errors
    # The limit that it had stays.
    assert api.changes == [("PUT llm-providers/openai", {"api_key": key, "requests_per_minute": 3000})]
    assert "9876" in result.printed
    assert "secret" not in result.printed + result.errors


def test_a_provider_without_a_key_is_not_changed(api: StoredApi, kb: CommandRunner) -> None:
    assert kb(api.answer, "providers", "set", "openai", "--key-from", "KB_NO_SUCH_VARIABLE").status == 1
    assert kb(api.answer, "providers", "set", "openai").status == 1
    assert api.changes == []


@pytest.mark.parametrize("command", [("prompts", "Hotel costs"), ("agents", "Support"), ("providers", "openai")])
def test_nothing_is_deleted_without_a_yes(api: StoredApi, kb: CommandRunner, command: tuple[str, str]) -> None:
    kind, name = command
    assert kb(api.answer, kind, "delete", name).status == 1
    assert kb(api.answer, kind, "delete", name, typed="n\n").status == 1
    assert api.changes == []
    assert kb(api.answer, kind, "delete", name, "--yes").status == 0
    assert [each.split()[0] for each, _ in api.changes] == ["DELETE"]
