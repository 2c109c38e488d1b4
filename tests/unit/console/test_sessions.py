"""Sign-in, sessions and codes: who gets in, for how long, and what a browser is told."""

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from kb_console.addresses import own_address
from kb_console.sessions import COOKIE, ConsoleSession, Sessions
from tests.unit.console.conftest import API_KEY, HOST, SAME_ORIGIN, SECRET
from tests.unit.console.fake_api import FakeApi

ORG = "/console/orgs/acme"
WHO = ConsoleSession("acme", API_KEY, "a key", ("read",))


async def test_a_sign_in_leads_to_the_page_that_was_asked_for(stranger: httpx.AsyncClient) -> None:
    page = f"{ORG}/knowledge-bases?status=active"
    refused = await stranger.get(page)
    assert refused.status_code == 303
    form = await stranger.get(refused.headers["location"])
    assert 'value="/console/orgs/acme/knowledge-bases?status=active"' in form.text
    answer = await stranger.post("/console/sign-in", data={"api_key": API_KEY, "then": page})
    assert (answer.status_code, answer.headers["location"]) == (303, page)


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example/", "https://evil.example/console/", "/\\evil.example", "/v0/", "/console/\r\nX: y"]
)
def test_a_sign_in_leads_nowhere_else(elsewhere: str) -> None:
    assert own_address(elsewhere) == "/console/"


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_says_nothing(
    stranger: httpx.AsyncClient,
) -> None:
    answer = await stranger.post("/console/sign-in", data={"api_key": API_KEY})
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/console", "SameSite=lax", "Max-Age=28800"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert API_KEY not in cookie
    over_https = await stranger.post(
        "/console/sign-in", data={"api_key": API_KEY}, headers={"X-Forwarded-Proto": "https"}
    )
    assert "Secure" in over_https.headers["set-cookie"]


async def test_an_invalid_key_is_refused_and_too_many_of_them_have_to_wait(
    stranger: httpx.AsyncClient, api: FakeApi
) -> None:
    api.refuse("GET /v0/whoami", 401, "unauthenticated")
    sign_in = {"api_key": "kb_0123456789ab_wrong"}
    refused = [await stranger.post("/console/sign-in", data=sign_in) for _ in range(5)]
    assert [each.status_code for each in refused] == [401, 401, 401, 429, 429]
    assert "not valid" in refused[0].text
    assert "Try again in" in refused[-1].text
    assert COOKIE not in stranger.cookies
    # Others come from another address, and a valid key is never refused.
    elsewhere = await stranger.post("/console/sign-in", data=sign_in, headers={"X-Forwarded-For": "1.1.1.1, 2.2.2.2"})
    assert elsewhere.status_code == 401
    del api.problems["GET /v0/whoami"]
    assert (await stranger.post("/console/sign-in", data={"api_key": API_KEY})).status_code == 303


@pytest.mark.parametrize("key", ["", "no key", "kb_é", "x" * 900])
async def test_what_is_no_key_is_refused_as_well(stranger: httpx.AsyncClient, api: FakeApi, key: str) -> None:
    api.refuse("GET /v0/whoami", 401, "unauthenticated")
    assert (await stranger.post("/console/sign-in", data={"api_key": key})).status_code == 401


async def test_a_revoked_key_ends_the_session_at_its_next_request(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.refuse_all(401, "unauthenticated")
    answer = await reader.get(f"{ORG}/knowledge-bases?q=x")
    assert answer.status_code == 303
    assert (
        answer.headers["location"]
        == "/console/sign-in?then=%2Fconsole%2Forgs%2Facme%2Fknowledge-bases%3Fq%3Dx&ended=true"
    )
    headers = {"HX-Request": "true", "HX-Request-Type": "partial", "HX-Current-URL": f"{HOST}{ORG}/knowledge-bases"}
    partial = await reader.get(f"{ORG}/knowledge-bases", headers=headers)
    assert (
        partial.headers["hx-redirect"] == "/console/sign-in?then=%2Fconsole%2Forgs%2Facme%2Fknowledge-bases&ended=true"
    )
    in_a_form = await reader.post(f"{ORG}/chat", data={"question": "x"}, headers={"Referer": f"{HOST}{ORG}/chat"})
    assert in_a_form.headers["location"] == "/console/sign-in?then=%2Fconsole%2Forgs%2Facme%2Fchat&ended=true"
    assert "Your session has ended" in (await reader.get(in_a_form.headers["location"])).text


async def test_a_visitor_without_a_session_is_not_told_that_a_session_has_ended(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.get(f"{ORG}/chat")
    assert "ended" not in answer.headers["location"]
    assert "has ended" not in (await stranger.get(answer.headers["location"])).text


async def test_a_sign_out_takes_the_session_away(reader: httpx.AsyncClient) -> None:
    assert (await reader.post("/console/sign-out")).status_code == 303
    assert (await reader.get(f"{ORG}/knowledge-bases")).status_code == 303


async def test_pages_of_another_organization_do_not_exist(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.calls.clear()
    assert (await reader.get("/console/orgs/other/knowledge-bases")).status_code == 404
    assert api.calls == []


def test_a_session_outlives_a_change_of_the_secret_until_the_former_one_goes() -> None:
    sealed = Sessions([SECRET], is_https=False)._seal.close(WHO.to_json())
    request = _request_with(sealed)
    assert Sessions(["a new secret, long enough" * 2, SECRET], is_https=False).find(request) == WHO
    assert Sessions(["a new secret, long enough" * 2], is_https=False).find(request) is None


def _request_with(cookie: str) -> Request:
    return Request({"type": "http", "headers": [(b"cookie", f"{COOKIE}={cookie}".encode())]})


async def test_a_code_signs_in_once_and_only_from_the_own_machine(stranger: httpx.AsyncClient) -> None:
    made = await stranger.post("/console/sign-in/codes", headers={"Authorization": f"Bearer {API_KEY}"})
    path = made.json()["path"]
    assert API_KEY not in path
    from_another_site = await stranger.get(path, headers={"Sec-Fetch-Site": "cross-site"})
    assert from_another_site.status_code == 401
    assert (await stranger.get(path, headers={"Sec-Fetch-Site": "none"})).status_code == 303
    assert (await stranger.get(f"{ORG}/knowledge-bases")).status_code == 200
    again = await stranger.get(path, headers={"Sec-Fetch-Site": "none"})
    assert again.status_code == 401
    assert "kb open" in again.text


async def test_a_code_is_neither_a_session_nor_made_without_a_valid_key(
    stranger: httpx.AsyncClient, api: FakeApi
) -> None:
    made = await stranger.post("/console/sign-in/codes", headers={"Authorization": f"Bearer {API_KEY}"})
    stranger.cookies.set(COOKIE, made.json()["path"].partition("code=")[2], domain="console.example", path="/console")
    assert (await stranger.get(f"{ORG}/knowledge-bases")).status_code == 303
    api.refuse("GET /v0/whoami", 401, "unauthenticated")
    for headers in ({}, {"Authorization": "Bearer kb_0123456789ab_wrong"}):
        assert (await stranger.post("/console/sign-in/codes", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Origin": HOST}, 303),
        (SAME_ORIGIN, 303),
    ],
)
async def test_only_pages_of_the_console_can_change_something(
    app: FastAPI, headers: dict[str, str], status: int
) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOST, headers=headers) as browser:
        assert (await browser.post("/console/sign-out")).status_code == status


async def test_a_page_has_a_policy_with_a_nonce_of_its_own_and_is_not_stored(reader: httpx.AsyncClient) -> None:
    pages = [await reader.get(f"{ORG}/knowledge-bases") for _ in range(2)]
    for page in pages:
        policy = page.headers["content-security-policy"]
        nonce = policy.partition("'nonce-")[2].partition("'")[0]
        assert f'nonce="{nonce}"' in page.text
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'; trusted-types htmx" in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
    assert pages[0].headers["content-security-policy"] != pages[1].headers["content-security-policy"]


async def test_static_files_are_cached_for_ever_at_the_address_of_their_content(stranger: httpx.AsyncClient) -> None:
    page = await stranger.get("/console/sign-in")
    address = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    file = await stranger.get(address)
    assert (file.status_code, file.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
    outdated = "/".join(["/console/static/0000000000000000", *address.split("/")[4:]])
    assert (await stranger.get(outdated)).status_code == 404
    assert (await stranger.get("/console/static/x/../settings.py")).status_code == 404


async def test_a_body_that_is_too_large_is_refused(reader: httpx.AsyncClient) -> None:
    answer = await reader.post("/console/sign-in", data={"api_key": "x" * 4_000_001})
    assert answer.status_code == 413
