"""`kb dlq` on one dead letter and on many: requests until no message is left that can be sent."""

import json
from typing import Any

import httpx
import pytest

from tests.unit.client.command_line.answering_api import CommandRunner

LETTER: dict[str, Any] = {
    "dead_letter_id": "9b2f",
    "topic": "document-events",
    "partition": 3,
    "offset": 1042,
    "document_id": "handbook",
    "reason": "unknown-text-ref",
    "detail": "",
    "size_bytes": 512,
    "trace_id": None,
    "occurred_at": None,
    "filed_at": "2026-01-31T12:00:05Z",
    "redriven_at": None,
    "redriven_by": None,
    "redriven_from": None,
    "discarded_at": "2026-01-31T13:00:00Z",
    "discarded_by": "a",
}


class LetterServer:
    """Knows one dead letter, and redrives as many as `counts` says, request by request."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)
        self.requests: list[tuple[str, str, Any]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0/orgs/acme")
        body = json.loads(request.content) if request.content else dict(request.url.params)
        self.requests.append((request.method, path, body))
        if path.endswith(":redrive"):
            counts = {"redriven_count": self.counts.pop(0), "too_large_count": 1, "are_more_left": True}
            return httpx.Response(202, json=counts)
        if path == "/dead-letters":
            return httpx.Response(200, json={"dead_letters": [LETTER], "total_count": 1, "next_cursor": None})
        return httpx.Response(200, json=LETTER)


def test_many_are_redriven_until_none_is_left_that_can_be_sent(kb: CommandRunner) -> None:
    server = LetterServer(1000, 500, 0)
    result = kb(server.answer, "dlq", "redrive", "--reason", "unknown-text-ref")
    assert (result.status, result.printed) == (0, "sent 1,500 messages again\n")
    assert "left 1 that are larger than Kafka accepts" in result.errors
    assert [body.get("reason") for _, _, body in server.requests] == ["unknown-text-ref"] * 3


@pytest.mark.parametrize("arguments", [(), ("9b2f", "--all"), ("--all", "--output", "ids")])
def test_what_to_redrive_must_be_said_once(kb: CommandRunner, arguments: tuple[str, ...]) -> None:
    server = LetterServer()
    assert kb(server.answer, "dlq", "redrive", *arguments).status == 2
    assert server.requests == []


def test_one_is_shown_redriven_and_discarded_by_its_own_call(kb: CommandRunner) -> None:
    server = LetterServer()
    assert "unknown-text-ref" in kb(server.answer, "dlq", "show", "9b2f").printed
    assert kb(server.answer, "dlq", "redrive", "9b2f").printed == "sent 9b2f to document-events again\n"
    assert kb(server.answer, "dlq", "discard", "9b2f").printed == "discarded 9b2f\n"
    assert kb(server.answer, "dlq", "list", "--open", "--output", "ids").printed == "9b2f\n"
    called = [(method, path) for method, path, _ in server.requests]
    path = "/dead-letters/9b2f"
    assert called[:3] == [("GET", path), ("POST", f"{path}/redrive"), ("POST", f"{path}/discard")]
    assert server.requests[3][2]["is_open"] == "true"
