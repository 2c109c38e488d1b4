"""`kb admin delete-organization` asks, confirms the organization by its id, and waits for the end."""

import json
from functools import partial
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from kb_client import admin_commands
from kb_client.api_connection import ApiConnection

ENVIRONMENT = {"KB_BASE_URL": "http://kb/", "KB_ORGANIZATION": "acme", "KB_API_KEY": "kb_a_b"}
RUNNING = {"organization_id": "acme", "state": "running", "step": "rows", "deleted": {"documents": 2, "tags": 1}}


class DeletingApi:
    """Answers as kb-api does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        if request.method == "DELETE":
            return httpx.Response(202, json=RUNNING | {"deleted": {}})
        # Twice while it works; then the key is gone with everything else.
        is_gone = len(self.asked) > 4
        return httpx.Response(401, json={"title": "Unauthenticated"}) if is_gone else httpx.Response(200, json=RUNNING)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> DeletingApi:
    server = DeletingApi()
    opened = ApiConnection.open
    monkeypatch.setattr(
        ApiConnection, "open", lambda self: opened(self, httpx.MockTransport(partial(DeletingApi.answer, server)))
    )
    monkeypatch.setattr(admin_commands, "POLL_S", 0.0)
    return server


def run(*arguments: str, answer: str = "") -> Any:
    app = typer.Typer()
    admin_commands.register(app)
    return CliRunner().invoke(app, ["admin", "delete-organization", *arguments], input=answer, env=ENVIRONMENT)


def test_it_asks_and_waits_until_the_key_is_gone(server: DeletingApi) -> None:
    result = run("acme", "--json", answer="y\n")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output.splitlines()[-1]) == RUNNING | {"state": "done", "step": "done"}
    assert server.asked[0] == "DELETE /v0/orgs/acme?confirm=acme"
    assert set(server.asked[1:]) == {"GET /v0/orgs/acme/deletion"}


@pytest.mark.parametrize(("arguments", "answer"), [(["acme"], "n\n"), (["another", "--yes"], "")])
def test_nothing_is_sent_without_a_yes_or_for_another_organization(
    server: DeletingApi, arguments: list[str], answer: str
) -> None:
    assert run(*arguments, answer=answer).exit_code != 0
    assert server.asked == []
