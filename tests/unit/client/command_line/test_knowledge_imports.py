"""`kb knowledge` imports documents, structures texts and lists check-ins, and says what was left out."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.unit.client.command_line.answering_api import CommandRunner

SKIPPED = {"section": "pieces", "index": 0, "id": "empty", "reason": "content is empty"}
REPORT: dict[str, Any] = {
    "dry_run": True,
    "loaded": {"metadata": 1, "pieces": 0, "nodes": 0, "edges": 0},
    "changed": {"metadata": 1, "pieces": 0, "nodes": 0, "edges": 0},
    "skipped": [SKIPPED],
}
CHECK_IN: dict[str, Any] = {
    "check_in_id": "c1",
    "state": "proposed",
    "excerpt": "Alice specializes in LES.",
    "model": "m",
    "answers": 1,
    "prompt_tokens": 800,
    "completion_tokens": 100,
    "cost_usd": None,
    "warning_count": 1,
    "created_at": "2026-01-31T12:00:00Z",
    "created_by": "a",
    "applied_at": None,
    "text": "Alice specializes in LES.",
    "proposal": {"metadata": {"user:alice": {"entity_type": "user"}}},
    "warnings": [SKIPPED],
    "artifacts": None,
}


def respond(request: httpx.Request) -> httpx.Response:
    match request.method, request.url.path.removeprefix("/v0/orgs/acme"):
        case "POST", "/knowledge:import":
            assert json.loads(request.content) == {"pieces": []}
            return httpx.Response(200, json=REPORT | {"dry_run": request.url.params.get("dry_run") == "true"})
        case "POST", "/knowledge:structure":
            given = json.loads(request.content)
            applied = {"state": "applied", "artifacts": REPORT} if given["apply"] else {}
            return httpx.Response(201, json=CHECK_IN | applied | {"text": given["text"]})
        case "POST", "/check-ins/c1/apply":
            return httpx.Response(200, json=CHECK_IN | {"state": "applied", "artifacts": REPORT})
        case "GET", "/check-ins":
            page = {"check_ins": [CHECK_IN], "total_count": 1, "next_cursor": None}
            return httpx.Response(200, json=page)
    raise AssertionError(request.url)


def test_an_import_prints_what_was_loaded_and_why_an_item_was_skipped(kb: CommandRunner, tmp_path: Path) -> None:
    file = tmp_path / "knowledge.json"
    file.write_text('{"pieces": []}')
    done = kb(respond, "knowledge", "import", str(file), "--dry-run")
    assert done.status == 0
    assert "would be skipped" in done.printed
    assert "content is empty" in done.printed
    assert json.loads(kb(respond, "knowledge", "import", str(file), "--json").printed) == REPORT | {"dry_run": False}
    file.write_text('{"piece": []}')
    refused = kb(respond, "knowledge", "import", str(file))
    assert (refused.status, "unknown fields: piece" in refused.errors) == (1, True)


def test_a_structured_text_is_shown_until_it_is_applied(kb: CommandRunner, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Alice specializes in LES.")
    proposed = kb(respond, "knowledge", "structure", str(file))
    assert '"user:alice"' in proposed.printed
    assert "left out: pieces: content is empty" in proposed.errors
    assert "kb knowledge apply c1" in proposed.errors
    for arguments in (("structure", str(file), "--apply"), ("apply", "c1")):
        applied = kb(respond, "knowledge", *arguments)
        assert (applied.status, "applied" in applied.printed, "loaded" in applied.printed) == (0, True, True)


def test_check_ins_are_listed(kb: CommandRunner) -> None:
    assert "Alice specializes in LES." in kb(respond, "knowledge", "check-ins").printed
    assert kb(respond, "knowledge", "check-ins", "--output", "ids").printed == "c1\n"
