"""A browser refuses to do something for others: scripts, other sites, markup that slipped in."""

from dataclasses import replace

from playwright.sync_api import Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import ConsoleUnderTest


def test_a_wrong_key_is_refused_in_words_and_nothing_is_remembered(
    page: Page, console: ConsoleUnderTest, complaints: Complaints
) -> None:
    complaints.expected.add("401")
    page.goto(f"{console.base_url}/console/")
    page.get_by_label("API key").fill("kb_aaaaaaaaaaaa_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    assert page.context.cookies() == []
    assert_accessible(page)


def test_the_key_is_out_of_reach_of_scripts(page: Page, console: ConsoleUnderTest) -> None:
    sign_in(page, console)
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/console")
    assert console.api_key not in cookie["value"]


def test_a_revoked_key_ends_the_session_at_the_next_page(page: Page, console: ConsoleUnderTest) -> None:
    made = console.call("POST", "/api-keys", {"name": "guest", "scopes": ["read"]})
    sign_in(page, replace(console, api_key=made["api_key"]))
    console.call("DELETE", f"/api-keys/{made['key_id']}")
    page.goto(console.url("?status=active"))
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.get_by_label("API key").fill(console.api_key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Knowledge bases")).to_be_visible()
    assert page.url.endswith("?status=active"), "the sign-in leads back to the same page"


def test_markup_that_slipped_in_does_nothing(page: Page, console: ConsoleUnderTest, complaints: Complaints) -> None:
    complaints.expected |= {"hx-csp", "Content Security Policy", "TrustedHTML", "TrustedScript"}
    sign_in(page, console)
    page.goto(console.url("?q=nothing-has-this-name"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        """() => { const holder = document.createElement('div'); document.body.append(holder);
        const hostile = document.createElement('div'); hostile.setAttribute('hx-post', '/console/sign-out');
        hostile.setAttribute('hx-trigger', 'load'); holder.append(hostile);
        htmx.process(holder);
        for (const attempt of [() => holder.setAttribute('onclick', 'window.hacked = 1'),
          () => { holder.innerHTML = '<b>'; }, () => { const script = document.createElement('script');
            script.textContent = 'window.hacked = 1'; holder.append(script); }])
          try { attempt(); } catch (refused) { window.refused = (window.refused ?? 0) + 1; }
        holder.click(); }"""
    )
    # A request of the page itself comes after that one would have.
    page.get_by_label("Name").fill("later")
    page.wait_for_url("**q=later**")
    assert not any("sign-out" in url for url in asked)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("window.refused") == 3, "trusted types refuse text that would become markup or a script"


def test_a_link_of_kb_open_signs_in_once(page: Page, console: ConsoleUnderTest, complaints: Complaints) -> None:
    complaints.expected.add("401")
    answer = page.request.post(
        f"{console.base_url}/console/sign-in/codes", headers={"Authorization": f"Bearer {console.api_key}"}
    )
    link = console.base_url + answer.json()["path"]
    page.goto(link)
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("used already")
