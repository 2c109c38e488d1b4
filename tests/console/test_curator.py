"""The story of somebody who curates knowledge: an entry, a source, and an answer that cites the entry."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import ConsoleUnderTest, eventually
from tests.console.example_data import serve_site


def test_a_curator_writes_an_entry_runs_a_source_and_sees_the_entry_cited(
    page: Page, console: ConsoleUnderTest, complaints: Complaints
) -> None:
    complaints.expected.add("422")  # of the credential
    sign_in(page, console)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Entries", exact=True).click()
    page.get_by_role("link", name="Write an entry").first.click()
    page.get_by_label("Title").fill("When the night shift begins")
    page.locator("textarea[name=content]").fill("password: hunter2-hunter2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("credential")
    expect(page.get_by_label("Title")).to_have_value("When the night shift begins")
    page.locator("textarea[name=content]").fill("The night shift of the workshop begins at ten in the evening.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#live .badge")).to_have_text("searchable")
    expect(page.get_by_text("1 passage", exact=True)).to_be_visible()
    assert_accessible(page)
    entry = page.url.partition("?")[0]

    with serve_site() as site:
        page.goto(console.of_organization("/knowledge/sources/new"))
        page.get_by_label("Label").fill("Workshop pages")
        page.get_by_label("Address of the first page").fill(site)
        page.get_by_role("button", name="Add").click()
        page.get_by_role("button", name="Run now").click()
        expect(page.locator("#live .badge").first).to_have_text("ok")
        expect(page.locator("#live")).to_contain_text("2 created")
        assert_accessible(page)
    page.get_by_role("link", name="Its entries").click()
    expect(page.locator("#rows tbody tr")).to_have_count(2)

    page.goto(console.of_organization("/knowledge/search"))
    page.get_by_label("Search as agents do").fill("When does the night shift begin?")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".results li").first).to_contain_text("ten in the evening")
    question = [{"role": "user", "content": "When does the night shift of the workshop begin?"}]
    answer = console.call("POST", "/runs", {"messages": question, "model": "demo-extractive"} | _knowledge(console))
    assert any(citation["document_id"].startswith("entry-") for citation in answer["citations"])
    eventually(lambda: _citations(console, entry) > 0)
    page.goto(entry)
    expect(page.get_by_role("definition").filter(has_text="1").first).to_be_visible()
    expect(page.locator("#live dd").first).not_to_have_text("0")


def _knowledge(console: ConsoleUnderTest) -> dict[str, str]:
    found = console.call("GET", "/knowledge-bases?limit=100")["knowledge_bases"]
    return {"kb_id": next(kb["kb_id"] for kb in found if kb["kind"] == "knowledge")}


def _citations(console: ConsoleUnderTest, entry: str) -> int:
    return int(console.call("GET", f"/knowledge-entries/{entry.rpartition('/')[2]}")["cites_30d"])


@pytest.mark.long
def test_settings_that_somebody_else_has_changed_are_not_overwritten(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, *, examples: dict[str, str]
) -> None:
    complaints.expected.add("412")
    sign_in(page, console)
    page.goto(console.url(f"/{examples['kb_id']}/settings"))
    page.get_by_label("Description").fill("Mine")
    console.call("PUT", f"/knowledge-bases/{examples['kb_id']}", {"description": "Theirs"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed")
    expect(page.get_by_role("row", name="description Mine Theirs")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Save mine over theirs").click()
    expect(page.get_by_text("The settings were saved.")).to_be_visible()
    page.get_by_label("Other tags").fill("not-used-yet")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="With these tags")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Save with these tags").click()
    expect(page.get_by_text("The settings were saved.")).to_be_visible()
