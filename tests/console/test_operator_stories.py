"""Stories of people on call and of admins, in a real browser."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually


def url(console: ConsoleUnderTest, path: str) -> str:
    return f"{console.base_url}/console/orgs/local/{path}"


def test_who_is_on_call_retries_a_failed_document_and_redrives_a_dead_letter(
    page: Page, console: ConsoleUnderTest, failing: str
) -> None:
    eventually(lambda: console.call("GET", "/dead-letters?is_open=true")["total_count"] >= 1)
    sign_in(page, console)
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_text("needs attention")).to_be_visible()
    assert_accessible(page)

    page.get_by_role("navigation", name="Operations").get_by_role("link", name="Failed documents").click()
    row = page.get_by_role("row").filter(has_text="night.md")
    expect(row.get_by_role("button", name="Retry now")).to_be_enabled()
    row.get_by_role("link", name="night.md").click()
    expect(page.get_by_text("document_unfit").first).to_be_visible()
    page.go_back()
    row.get_by_role("button", name="Retry now").click()
    expect(page.get_by_role("status").filter(has_text="is tried again now")).to_be_visible()
    # The cause is still there. Without it, the change of the limit has the document tried again.
    expect(page.locator("#live .badge").first).to_have_text("failed")
    console.call("PUT", f"/knowledge-bases/{failing}", {"max_chunks_per_document": 0})
    indexed = f"/knowledge-bases/{failing}/documents?status=indexed"
    eventually(lambda: console.call("GET", indexed)["total_count"] == 1)
    page.reload()
    expect(page.locator("#live .badge").first).to_have_text("indexed")

    page.goto(url(console, "operations/dead-letters"))
    letter = page.get_by_role("row").filter(has_text="unreadable").first
    letter.get_by_role("link").first.click()
    expect(page.get_by_text("The content is never shown.")).to_be_visible()
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_contain_text("sent to its topic again")
    assert_accessible(page)
    # It is as unreadable as before, so it comes back.
    eventually(lambda: console.call("GET", "/dead-letters?is_open=true")["total_count"] == 1)
    page.goto(url(console, "operations/dead-letters"))
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Discard selected").click()
    expect(page.get_by_role("heading", name="Discard 1 dead letter?")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("status").first).to_contain_text("1 dead letter discarded")
    expect(page.get_by_text("There is no open dead letter")).to_be_visible()


def test_an_admin_reads_usage_sets_a_budget_and_revokes_a_key(
    page: Page, console: ConsoleUnderTest, failing: str
) -> None:
    assert failing
    eventually(lambda: console.call("GET", "/usage")["total_spus"] > 0)
    sign_in(page, console)
    page.get_by_role("link", name="Usage").click()
    chart = page.locator(".chart canvas")
    expect(chart).to_be_visible()
    coloured = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(each => each)"
    )
    assert chart.evaluate(coloured), "the bars are drawn"
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("row").filter(has_text=re.compile(r"20\d\d-\d\d-\d\d"))).to_have_count(30)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert "spus" in download.value.path().read_text()

    page.get_by_role("link", name="Change the budget").click()
    page.get_by_label("Hard limit, in SPUs").fill("1")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("is used up already")
    assert_accessible(page)
    page.get_by_label("Hard limit, in SPUs").fill("1000000")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("The budget was changed")
    assert console.call("GET", "/budget")["hard"] == 1_000_000
    console.call("PUT", "/budget", {"soft": None, "hard": None})

    page.get_by_role("link", name="API keys").click()
    page.get_by_label("Name").fill("robot")
    page.get_by_role("button", name="Create").click()
    key = page.locator("pre").inner_text()
    assert key.startswith("kb_")
    assert_accessible(page)
    page.get_by_role("link", name="Done").click()
    expect(page.locator("body")).not_to_contain_text(key)
    page.get_by_role("row").filter(has_text="robot").get_by_role("link", name="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_contain_text("The key was revoked")
    expect(page.get_by_role("row").filter(has_text="robot").first).to_contain_text("revoked")


def test_the_address_of_another_organization_is_not_found(
    page: Page, console: ConsoleUnderTest, complaints: Complaints
) -> None:
    complaints.expected.add("404")
    sign_in(page, console)
    for path in ("operations", "usage", "settings/keys"):
        page.goto(f"{console.base_url}/console/orgs/another/{path}")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()


PAGES = (
    "operations", "operations/failed", "operations/dead-letters?show=all", "operations/unsendable-messages",
    "operations/drift", "operations/jobs", "insights", "usage?by=kb", "usage/budget", "settings/keys",
    "settings/providers", "settings/tags", "settings/webhooks", "settings/audit", "settings/organization",
    "settings/organization/delete",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page_of_operators_is_accessible_and_fits(
    browser: Browser, console: ConsoleUnderTest, complaints: Complaints, *, failing: str, scheme: str, width: int
) -> None:
    console.call("POST", f"/knowledge-bases/{failing}/search", {"query": "night"})
    plan = console.call("POST", f"/knowledge-bases/{failing}/reconcile?dry_run=true")["plan_id"]
    [job, *_] = console.call("GET", "/jobs")["jobs"]
    further = (f"operations/drift/plans/{plan}", f"operations/jobs/{job['kb_id']}/{job['job_id']}")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    complaints.watch(context)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    for path in (*PAGES, *further, f"knowledge-bases/batch?action=pause&kb={failing}"):
        page.goto(url(console, path))
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} sticks out of the window"
    context.close()


@pytest.mark.long
def test_operators_need_no_script(browser: Browser, console: ConsoleUnderTest) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    page.get_by_role("link", name="Operations").click()
    page.get_by_role("link", name="Drift").click()
    page.get_by_role("button", name="Check, and change nothing").click()
    expect(page.get_by_role("heading", name="Check of all knowledge bases")).to_be_visible()
    page.get_by_role("link", name="Usage").click()
    page.get_by_label("Time").select_option("7d")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="Insights", exact=True).click()
    assert page.url.endswith("insights?range=7d"), "the range is kept"
    context.close()
