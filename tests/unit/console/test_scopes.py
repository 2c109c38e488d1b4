"""What a key may not do: its controls are disabled with the reason, and without them it is refused all the same.

Which scopes a form needs is written down nowhere: it is sent with the key of an admin first. The calls that the console
makes then need the scopes that `tests/isolation/test_routes.py` proves for each route of the API.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
from fastapi import FastAPI
from starlette.routing import Match, Route

from tests.isolation.test_routes import MATRIX
from tests.unit.console.conftest import API_KEY
from tests.unit.console.fake_api import DOCUMENT_ID, KB_ID, FakeApi
from tests.unit.console.fake_runs import THREAD_ID
from tests.unit.console.knowledge_answers import ENTRY_ID, SOURCE_ID
from tests.unit.console.operator_pages import WEBHOOK_ID
from tests.unit.console.post_forms import FoundPostForms, Sending
from tests.unit.console.test_pages import ORG, PAGES

KEYS: Final = (["read"], ["search"], ["write"], ["read", "search", "write"])
KEYS_THAT_SEE_PAGES: Final = (["read"], ["read", "search", "write"])
SCOPES: Final = {"read", "search", "write", "admin"}
_ORGANIZATION: Final = "/console/orgs/{organization_id}"
OF_EVERYBODY: Final = {
    "/console/sign-in", "/console/sign-in/codes", "/console/sign-out", f"{_ORGANIZATION}/prompts/schema"
}  # fmt: skip
"""Routes that call the API for nothing, or to find out who somebody is."""
TYPED: Final[dict[str, dict[str, list[str]]]] = {
    f"{_ORGANIZATION}/knowledge-bases/{{kb_id}}/delete": {"name": ["Handbook"]},
    f"{_ORGANIZATION}/settings/organization/delete": {"name": ["acme"]},
    f"{_ORGANIZATION}/knowledge/entries/{{entry_id}}": {"title": ["Another title"]},
    f"{_ORGANIZATION}/documents/change": {"edit": ["add_tags"], "tags": ["another"]},
    f"{_ORGANIZATION}/chat": {"kb": [KB_ID]},
}
"""Fields that a person fills in, in forms that do nothing as they are shown."""
_CALLS: Final = [
    (route.scope.value, re.compile(route.method + " " + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route.path))))
    for route in sorted(MATRIX, key=lambda route: route.path.count("{"))
]


def needed_scope(call: str) -> str | None:
    """Return the scope of a call of the API; None if it is not of an organization."""
    return next((scope for scope, pattern in _CALLS if pattern.fullmatch(call)), None)


@dataclass(frozen=True, slots=True)
class Posted:
    """A form with the scopes that it needs."""

    sending: Sending
    scopes: frozenset[str]


def post_routes(app: FastAPI) -> list[Route]:
    return [route for route in app.routes if isinstance(route, Route) and "POST" in (route.methods or ())]


def route_of(app: FastAPI, path: str) -> str:
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": []}
    return next(route.path for route in post_routes(app) if route.matches(scope)[0] is Match.FULL)


def show_other_states(api: FakeApi) -> list[str]:
    """Change the answers to those with the other controls, and return the pages that show them."""
    at = "2026-01-31T12:00:00Z"
    api.answers[f"GET /knowledge-bases/{KB_ID}"]["paused_at"] = at
    api.answers["GET /llm-providers"]["llm_providers"][0]["paused_at"] = at
    api.answers[f"GET /webhooks/{WEBHOOK_ID}"]["enabled"] = False
    api.answers[f"GET /knowledge-entries/{ENTRY_ID}"]["embedding_status"] = "error"
    api.answers[f"GET /knowledge-sources/{SOURCE_ID}/runs"]["runs"][0]["status"] = "running"
    api.answers["GET /tags"]["tags"][0] |= {"document_count": 0, "knowledge_base_count": 0}
    api.answers[f"GET /threads/{THREAD_ID}"]["runs"][0]["status"] = "running"
    api.answers[f"GET /documents/{DOCUMENT_ID}"]["knowledge_bases"] = []
    return [
        f"{ORG}/knowledge-bases/{KB_ID}", f"{ORG}/settings/providers", f"{ORG}/settings/webhooks/{WEBHOOK_ID}",
        f"{ORG}/knowledge/entries/{ENTRY_ID}", f"{ORG}/knowledge/sources/{SOURCE_ID}", f"{ORG}/settings/tags",
        f"{ORG}/chat/{THREAD_ID}", f"{ORG}/documents/{DOCUMENT_ID}",
    ]  # fmt: skip


async def shown_forms(browser: httpx.AsyncClient, api: FakeApi) -> dict[str, FoundPostForms]:
    """Return the forms of all pages in all their states."""
    found = {page: FoundPostForms((await browser.get(page)).text) for page in PAGES}
    selected = await browser.post(f"{ORG}/documents/selected", data={"document_id": ["handbook"]})
    found["selected documents"] = FoundPostForms(selected.text)
    others = show_other_states(api)
    return found | {f"{page}, other state": FoundPostForms((await browser.get(page)).text) for page in others}


async def send(browser: httpx.AsyncClient, sending: Sending, *, route: str) -> httpx.Response:
    fields = sending.fields | TYPED.get(route, {})
    return await browser.post(sending.path, data=fields, files=sending.files or None)


async def find_posted(app: FastAPI, admin: httpx.AsyncClient, api: FakeApi) -> dict[str, Posted]:
    """Send a form to each route with the key of an admin, and return them with the scopes that their calls need."""
    sendings: dict[str, Sending] = {}
    for forms in (await shown_forms(admin, api)).values():
        sendings |= {route_of(app, sending.path): sending for sending in forms.sendings()}
    # It would end the session.
    del sendings["/console/sign-out"]
    posted = {}
    for route, sending in sendings.items():
        api.calls.clear()
        await send(admin, sending, route=route)
        # The header of a page, for example, only reads, and a page is shown without it.
        acting = [call for call in api.calls if not call.startswith("GET ")] or api.calls
        scopes = {needed_scope(call) for call in acting}
        posted[route] = Posted(sending, frozenset(scope for scope in scopes if scope is not None))
    return posted


async def sign_in_with(browser: httpx.AsyncClient, api: FakeApi, scopes: list[str]) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = scopes
    assert (await browser.post("/console/sign-in", data={"api_key": API_KEY})).status_code == 303


async def wrong_answers(
    browser: httpx.AsyncClient, posted: dict[str, Posted], *, scopes: list[str]
) -> AsyncIterator[str]:
    """Yield the forms that are not refused to a key that may not send them, or without the name of a missing scope."""
    for route, form in posted.items():
        if form.scopes <= set(scopes):
            continue
        # Where it first reads what it changes, that may be what is refused.
        missing = SCOPES - set(scopes)
        answer = await send(browser, form.sending, route=route)
        names = [f"scope &#39;{scope}&#39;" for scope in missing] + [f"<code>{scope}</code>" for scope in missing]
        if answer.status_code != 403 or not any(name in answer.text for name in names):
            yield f"{route} lacks {form.scopes - set(scopes)} with {scopes}, and answers {answer.status_code}"


def wrong_controls(
    app: FastAPI, forms: FoundPostForms, posted: dict[str, Posted], *, scopes: list[str]
) -> Iterator[str]:
    """Yield the buttons of a page that are not what the key may do, or do not say why they are disabled."""
    for sending in forms.sendings():
        route = route_of(app, sending.path)
        missing = posted[route].scopes - set(scopes) if route in posted else set()
        button = sending.button
        named = re.search(r"lacks the scope (\w+)\.", button.title)
        if missing and not (button.is_disabled and button.title):
            yield f"{route} lacks {set(missing)} with {scopes}: {button}"
        if named is not None and named[1] in scopes:
            yield f"{route} is disabled for a wrong reason with {scopes}: {button}"


async def test_what_a_key_may_not_do_is_disabled_with_the_reason_and_refused_all_the_same(
    app: FastAPI, admin: httpx.AsyncClient, api: FakeApi
) -> None:
    posted = await find_posted(app, admin, api)
    assert {route.path for route in post_routes(app)} - posted.keys() <= OF_EVERYBODY, "no page shows a form of these"
    assert {route for route, form in posted.items() if not form.scopes} == set(), "send them so that they act"
    findings: list[str] = []
    api.needed_scope = needed_scope
    for scopes in KEYS:
        await sign_in_with(admin, api, scopes)
        findings += [each async for each in wrong_answers(admin, posted, scopes=scopes)]
    for scopes in KEYS_THAT_SEE_PAGES:
        api.answers = FakeApi().answers
        await sign_in_with(admin, api, scopes)
        for page, forms in (await shown_forms(admin, api)).items():
            findings += [f"{page}: {each}" for each in wrong_controls(app, forms, posted, scopes=scopes)]
    assert not findings, "\n".join(findings)
