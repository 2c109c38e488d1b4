"""`kb admin delete-organization` asks, confirms the organization by its id, and waits for the end."""

import json
from typing import Any

import httpx
import pytest

from kb_client import admin_commands
from tests.unit.client.command_line.answering_api import CommandRunner

RUNNING: dict[str, Any] = {
    "organization_id": "acme",
    "state": "running",
    "step": "rows",
    "requested_at": "2026-01-31T00:00:00Z",
    "requested_by": "a",
    "deleted": {"documents": 2, "tags": 1},
    "finished_at": None,
}


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
    monkeypatch.setattr(admin_commands, "POLL_S", 0.0)
    return DeletingApi()


def test_it_asks_and_waits_until_the_key_is_gone(server: DeletingApi, kb: CommandRunner) -> None:
    result = kb(server.answer, "admin", "delete-organization", "acme", "--json", typed="y\n")
    assert result.status == 0, result.errors
    assert json.loads(result.printed) == RUNNING | {"state": "done", "step": "done"}
    assert "http://kb.test" in result.errors
    assert server.asked[0] == "DELETE /v0/orgs/acme?confirm=acme"
    assert set(server.asked[1:]) == {"GET /v0/orgs/acme/deletion"}


@pytest.mark.parametrize(("arguments", "typed", "status"), [(["acme"], "n\n", 1), (["another", "--yes"], "", 2)])
def test_nothing_is_sent_without_a_yes_or_for_another_organization(
    server: DeletingApi, kb: CommandRunner, arguments: list[str], typed: str, status: int
) -> None:
    assert kb(server.answer, "admin", "delete-organization", *arguments, typed=typed).status == status
    assert server.asked == []


def test_the_organization_of_an_option_counts_like_that_of_the_environment(
    server: DeletingApi, kb: CommandRunner
) -> None:
    result = kb(server.answer, "--organization", "acme2", "admin", "delete-organization", "acme2", "--yes")
    assert result.status == 0, result.errors
    assert server.asked[0] == "DELETE /v0/orgs/acme2?confirm=acme2"
