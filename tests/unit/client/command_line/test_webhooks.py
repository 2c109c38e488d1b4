"""`kb webhooks` shows why a webhook was disabled, lists deliveries over several pages and repeats them."""

from typing import Any

import httpx

from tests.unit.client.command_line.answering_api import CommandRunner

WEBHOOK: dict[str, Any] = {
    "webhook_id": "w1",
    "url": "https://example.com/hook",
    "description": "",
    "event_types": None,
    "kb_ids": None,
    "enabled": False,
    "created_at": "2026-01-31T12:00:00Z",
    "created_by": "a",
    "updated_at": "2026-01-31T12:00:00Z",
    "updated_by": "a",
    "former_secret_expires_at": None,
    "disabled_at": "2026-01-31T13:00:00Z",
    "disabled_reason": "receiver-gone",
    "paused_until": "2026-01-31T13:30:00Z",
}


def delivery(number: int) -> dict[str, Any]:
    return {
        "delivery_id": f"d{number}",
        "event_id": "e",
        "event_type": "document.indexed.v1",
        "state": "dead",
        "attempts": 12,
        "created_at": "2026-01-31T12:00:00Z",
        "attempted_at": None,
        "next_attempt_at": None,
        "last_status": 410,
        "last_error": "refused",
    }


def answer(request: httpx.Request) -> httpx.Response:
    """Answer as the API does, with one delivery on each of three pages."""
    path = request.url.path.removeprefix("/v0/orgs/acme/webhooks")
    match request.method, path:
        case "GET", "":
            return httpx.Response(200, json={"webhooks": [WEBHOOK], "total_count": 1})
        case "GET", "/w1/deliveries":
            assert request.url.params["state"] == "dead"
            number = int(request.url.params.get("cursor", 1))
            page = {"deliveries": [delivery(number)], "next_cursor": str(number + 1) if number < 3 else None}
            return httpx.Response(200, json=page)
        case "POST", "/w1/deliveries/d2/redeliver":
            return httpx.Response(200, json=delivery(2) | {"state": "waiting"})
        case "POST", "/w1/rotate-secret":
            return httpx.Response(200, json=WEBHOOK | {"secret": "whsec_new"})
        case "PUT", "/w1":
            assert request.read() == b'{"enabled":true}'
            return httpx.Response(200, json=WEBHOOK | {"enabled": True})
    return httpx.Response(404)


def test_a_disabled_webhook_says_why_and_is_enabled_again(kb: CommandRunner) -> None:
    listed = kb(answer, "webhooks", "list", "--output", "json").printed
    assert "receiver-gone" in listed
    assert "2026-01-31T13:30:00Z" in listed
    assert "paused until" in kb(answer, "webhooks", "list").printed
    assert kb(answer, "webhooks", "enable", "w1").printed == "enabled w1\n"


def test_deliveries_are_listed_over_all_pages_and_repeated(kb: CommandRunner) -> None:
    command = ("webhooks", "deliveries", "w1", "--state", "dead", "--output", "ids")
    assert kb(answer, *command).printed == "d1\nd2\nd3\n"
    assert kb(answer, *command, "--limit", "2").printed == "d1\nd2\n"
    assert kb(answer, *command, "--limit", "0").printed == "d1\nd2\nd3\n"
    assert "410" in kb(answer, "webhooks", "deliveries", "w1", "--state", "dead").printed
    assert kb(answer, "webhooks", "redeliver", "w1", "d2").printed == "d2 is tried again\n"


def test_a_new_secret_is_shown_once(kb: CommandRunner) -> None:
    assert kb(answer, "webhooks", "rotate-secret", "w1").printed.startswith("whsec_new\n")
