"""`kb events tail` prints each event as it comes, and `kb webhooks test` fails with its receiver."""

import json

import httpx
import pytest
import typer
from typer.testing import CliRunner

from kb_client import Client
from kb_client.cli import create_app
from kb_client.command_line import events, webhooks
from tests.unit.client.test_event_stream import DATA, InterruptedServer
from tests.unit.client.test_run_stream import Pieces

KB = "65f1c2a3b4d5e6f708192a3b"
FAILED = {"kb_id": KB, "document_id": "d", "organization_id": "acme", "error_type": "e", "message": "a\nb\x1b[2J"}
EVENT = {**DATA, "position": 5, "type": "document.index_failed.v1", "data": FAILED}


def run(monkeypatch: pytest.MonkeyPatch, server: object, *arguments: str) -> tuple[int, str]:
    def open_client(_: typer.Context) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(server))  # type: ignore[arg-type]  # a handler
        return Client("http://kb", organization="acme", api_key="kb_0_0", http=http, max_retries=0)

    for module in (events, webhooks):
        monkeypatch.setattr(module, "open_client", open_client)
    monkeypatch.setattr("kb_client.sync_client.event_stream.time.sleep", lambda _: None)
    result = CliRunner().invoke(create_app(), arguments)
    return result.exit_code, result.stdout


def follow(monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[list[str], InterruptedServer]:
    block = f"id: 5\nevent: x\ndata: {json.dumps(EVENT)}\n\n".encode()
    server = InterruptedServer(Pieces(block), Pieces(block.replace(b"5", b"6", 1)), 410)
    status, printed = run(monkeypatch, server, "events", "tail", *options)
    assert status == 1
    return printed.splitlines(), server


def test_events_are_lines_that_do_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, server = follow(monkeypatch)
    line = f"2026-01-31 12:00:00 UTC  document.index_failed.v1  {KB}/d  error_type=e message=a b[2J"
    assert lines == [line, line]
    assert server.asked == ["latest", "5", "6"]


def test_events_are_json_lines_from_a_position_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, server = follow(monkeypatch, "--json", "--after", "4")
    assert [json.loads(line)["data"] for line in lines] == [FAILED, FAILED]
    assert server.asked[0] == "4"


@pytest.mark.parametrize(
    ("result", "status", "printed"),
    [
        ({"delivered": True, "status": 204, "error": None, "duration_ms": 12.3}, 0, "delivered: status 204"),
        ({"delivered": False, "status": None, "error": "timeout", "duration_ms": 1}, 1, "not delivered (timeout)"),
    ],
)
def test_a_test_of_a_webhook_fails_with_its_receiver(
    monkeypatch: pytest.MonkeyPatch, result: dict[str, object], status: int, printed: str
) -> None:
    code, output = run(monkeypatch, lambda _: httpx.Response(200, json=result), "webhooks", "test", KB)
    assert code == status
    assert output.startswith(printed)
