"""`kb knowledge`: what it sends, and what it prints."""

import json
from pathlib import Path
from typing import Any, cast

import httpx

from kb_contracts.api.knowledge_entries import EntrySummary, EntryView
from tests.unit.client.command_line.answering_api import CommandRunner

VIEW: dict[str, Any] = cast("dict[str, Any]", EntryView.model_config["json_schema_extra"])["examples"][0]
SUMMARY: dict[str, Any] = VIEW | {"excerpt": VIEW["content"], "character_count": 78}


class KnowledgeServer:
    """Remembers the changes that it is asked for."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, Any]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0/orgs/acme")
        if request.method != "GET":
            self.changes.append((request.method, path, json.loads(request.content or b"null")))
        if request.method == "DELETE":
            return httpx.Response(200, json={"message": "deleted"})
        if request.method == "GET" and path == "/knowledge-entries":
            entry = {name: SUMMARY[name] for name in EntrySummary.model_fields}
            totals = {"by_status": {"ready": 1}, "by_source_type": {"note": 1}}
            page = {"entries": [entry], "total_count": 1, "totals": totals, "has_more": False, "next_cursor": None}
            return httpx.Response(200, json=page)
        return httpx.Response(201 if request.method == "POST" else 200, json=VIEW, headers={"ETag": '"7"'})


def test_an_entry_is_added_from_options_and_a_file(kb: CommandRunner, tmp_path: Path) -> None:
    server, file = KnowledgeServer(), tmp_path / "text.md"
    file.write_text("At most 220 euros.\n")
    result = kb(server.answer, "knowledge", "add", "Hotels", "--file", str(file), "--tag", "a", "--tag", "b", "--json")
    assert json.loads(result.printed)["entry_id"] == "les-rans-init"
    sent = {"title": "Hotels", "content": "At most 220 euros.\n", "tags": ["a", "b"]}
    assert server.changes == [("POST", "/knowledge-entries", sent)]
    assert kb(server.answer, "knowledge", "add", "Hotels").status == 2


def test_only_what_is_named_is_changed(kb: CommandRunner) -> None:
    server = KnowledgeServer()
    assert kb(server.answer, "knowledge", "edit", "les-rans-init", "--type", "rule").status == 0
    assert server.changes == [("PATCH", "/knowledge-entries/les-rans-init", {"type": "rule"})]


def test_a_reason_goes_with_a_text_that_only_looks_as_if_it_had_a_credential(kb: CommandRunner) -> None:
    server = KnowledgeServer()
    options = ("--content", "The password of the demo is Meadow44lark.", "--override-reason", "Everybody may know it.")
    assert kb(server.answer, "knowledge", "add", "Demo", *options).status == 0
    assert kb(server.answer, "knowledge", "edit", "les-rans-init", *options).status == 0
    sent = {"content": options[1], "override_reason": options[3]}
    assert [change for _, _, change in server.changes] == [{"title": "Demo", **sent}, sent]


def test_an_empty_value_removes_what_an_entry_need_not_have(kb: CommandRunner) -> None:
    server = KnowledgeServer()
    options = ("--knowledge-type", "--info-type", "--entity", "--embedding-text")
    emptied = [each for option in options for each in (option, "")]
    assert kb(server.answer, "knowledge", "edit", "les-rans-init", *emptied).status == 0
    [(_, _, sent)] = server.changes
    assert sent == dict.fromkeys(("knowledge_type", "info_type", "entity_id", "embedding_text"))


def test_entries_are_listed_and_shown(kb: CommandRunner) -> None:
    server = KnowledgeServer()
    assert kb(server.answer, "knowledge", "list", "--output", "ids").printed == "les-rans-init\n"
    assert "ready" in kb(server.answer, "knowledge", "list").printed
    assert "Initialize transient LES" in kb(server.answer, "knowledge", "get", "les-rans-init").printed


def test_an_entry_is_deleted_after_a_question(kb: CommandRunner) -> None:
    server = KnowledgeServer()
    assert kb(server.answer, "knowledge", "delete", "les-rans-init").status == 1
    assert server.changes == []
    assert kb(server.answer, "knowledge", "delete", "les-rans-init", "--yes").status == 0
    assert server.changes == [("DELETE", "/knowledge-entries/les-rans-init", None)]
