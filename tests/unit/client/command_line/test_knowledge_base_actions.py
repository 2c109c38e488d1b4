"""`kb kb pause` and its like on several knowledge bases: one request, and what became of each."""

import json
from typing import Any

import httpx
import pytest

from tests.unit.client.command_line.answering_api import KB_ID, KNOWLEDGE_BASE, CommandRunner

OTHER: dict[str, Any] = {**KNOWLEDGE_BASE, "kb_id": KB_ID[::-1], "name": "policies"}
PROBLEM = {"status": 409, "type": "concurrent-change", "detail": "Another request changed it.", "fields": None}


class ActingServer:
    """Knows two knowledge bases, and refuses every action on the second one."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith(":batch"):
            kbs = [each for each in (KNOWLEDGE_BASE, OTHER) if each["name"] == request.url.params.get("name_search")]
            return httpx.Response(200, json={"knowledge_bases": kbs, "total_count": len(kbs)})
        self.entries = json.loads(request.read())["entries"]
        outcomes = [
            {"kb_id": each["kb_id"], "job_id": None, "message": None, "problem": PROBLEM}
            if each["kb_id"] == OTHER["kb_id"]
            else {"kb_id": each["kb_id"], "job_id": "j1", "message": "It is done.", "problem": None}
            for each in self.entries
        ]
        refused = sum(each["problem"] is not None for each in outcomes)
        counts = {"accepted_count": len(outcomes) - refused, "refused_count": refused}
        return httpx.Response(200, json={**counts, "outcomes": outcomes})


@pytest.mark.parametrize(
    ("command", "action", "printed_id"),
    [
        ("pause", "pause", KB_ID),
        ("resume", "resume", KB_ID),
        ("reindex", "reindex", "j1"),
        ("retry-failed", "retry_failed", "j1"),
    ],
)
def test_an_action_on_several_is_one_request_and_says_what_became_of_each(
    kb: CommandRunner, command: str, action: str, printed_id: str
) -> None:
    server = ActingServer()
    result = kb(server.answer, "kb", command, "handbook", "policies")
    assert server.entries == [{"kb_id": each["kb_id"], "action": action} for each in (KNOWLEDGE_BASE, OTHER)]
    assert (result.status, result.printed) == (1, "handbook: It is done.\n")
    assert result.errors == "error: policies: Another request changed it.\n"
    ids = kb(server.answer, "kb", command, "handbook", "policies", "--output", "ids")
    assert ids.printed == f"{printed_id}\n"
    assert kb(server.answer, "kb", command, "handbook").status == 0


def test_with_a_name_of_no_knowledge_base_nothing_is_done(kb: CommandRunner) -> None:
    server = ActingServer()
    result = kb(server.answer, "kb", "pause", "handbook", "nonsense")
    assert (result.status, server.entries) == (1, [])
    assert "there is no knowledge base 'nonsense'" in result.errors


def test_a_rebuild_of_search_indexes_is_requested_of_one_and_shown(kb: CommandRunner) -> None:
    requested: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            requested.append(request.url.path)
            return httpx.Response(202, json={**KNOWLEDGE_BASE, "index_rebuild": "requested"})
        return httpx.Response(200, json={"knowledge_bases": [KNOWLEDGE_BASE], "total_count": 1})

    result = kb(answer, "kb", "rebuild-indexes", "handbook")
    assert requested == [f"/v0/orgs/acme/knowledge-bases/{KB_ID}/search-indexes/rebuild"]
    assert result.status == 0
    assert "rebuild requested" in result.printed
