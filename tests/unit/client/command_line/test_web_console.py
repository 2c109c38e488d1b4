"""`kb open` opens a link that signs in, and never shows the key."""

import webbrowser

import httpx
import pytest

from tests.unit.client.command_line.answering_api import ENVIRONMENT, CommandRunner

LINK = "http://kb.test/console/sign-in/with-code?code=sealed"


def make_code(request: httpx.Request) -> httpx.Response:
    assert (request.method, request.url.path) == ("POST", "/console/sign-in/codes")
    assert request.headers["Authorization"] == f"Bearer {ENVIRONMENT['KB_API_KEY']}"
    return httpx.Response(200, json={"path": "/console/sign-in/with-code?code=sealed", "lifetime_s": 60})


@pytest.mark.parametrize(("has_browser", "printed"), [(True, "opened http://kb.test/console/\n"), (False, LINK + "\n")])
def test_the_link_is_opened_or_printed_where_there_is_no_browser(
    kb: CommandRunner, monkeypatch: pytest.MonkeyPatch, *, has_browser: bool, printed: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: opened.append(link) or has_browser)  # type: ignore[func-returns-value]  # append
    result = kb(make_code, "open")
    assert (result.status, result.printed, opened) == (0, printed, [LINK])


def test_with_no_browser_it_is_only_printed(kb: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("opened"))
    assert kb(make_code, "open", "--no-browser").printed == LINK + "\n"
    assert '"is_opened": false' in kb(make_code, "open", "--json").printed


def test_a_refusal_says_why(kb: CommandRunner) -> None:
    body = {
        "type": "unauthenticated",
        "title": "",
        "status": 401,
        "detail": "The API key is not valid.",
        "request_id": "r",
    }
    refused = httpx.Response(401, json=body, headers={"Content-Type": "application/problem+json"})
    result = kb(lambda _: refused, "open", "--no-browser")
    assert (result.status, "The API key is not valid." in result.errors) == (1, True)
    missing = kb(lambda _: httpx.Response(503), "open", "--no-browser")
    assert (missing.status, "503" in missing.errors) == (1, True)
