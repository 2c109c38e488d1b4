"""Every page in light and dark, on a phone, by keyboard: nothing that axe finds, nothing that sticks out."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest
from tests.console.page_table import PAGES

pytestmark = pytest.mark.long

MOST_BYTES = 200_000
MOST_REQUESTS = 10


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)])
def test_every_page_is_accessible_and_fits(
    browser: Browser,
    console: ConsoleUnderTest,
    complaints: Complaints,
    *,
    examples: dict[str, str],
    scheme: str,
    width: int,
) -> None:
    complaints.expected.add("404")  # of the document that does not exist
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    complaints.watch(context)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.base_url}/console/sign-in")
    assert_accessible(page)
    sign_in(page, console)
    for listed in PAGES:
        page.goto(console.of_organization(listed.path.format_map(examples)))
        assert_accessible(page)
        fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert fits, f"{listed.name} sticks out of the window"
    context.close()


def test_the_first_view_is_small(page: Page, console: ConsoleUnderTest) -> None:
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    sign_in(page, console)
    assert len(sizes) <= 2 * MOST_REQUESTS, "of two pages"
    assert sum(sizes) < MOST_BYTES


def test_one_can_get_everywhere_by_keyboard(page: Page, console: ConsoleUnderTest, pumps: str) -> None:
    sign_in(page, console)
    page.goto(console.url(f"/{pumps}"))
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    reached = set()
    for _ in range(40):
        reached.add(page.evaluate("document.activeElement.innerText"))
        page.keyboard.press("Tab")
    assert {"Pause indexing", "Retry failed documents", "Delete …", "Settings"} <= reached


def test_times_are_in_the_zone_of_the_reader_with_the_exact_one_beside(
    browser: Browser, console: ConsoleUnderTest, pumps: str
) -> None:
    context = browser.new_context(timezone_id="Pacific/Kiritimati", locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    page.goto(console.url(f"/{pumps}"))
    created = page.locator("dd time").last
    assert "UTC" not in created.inner_text()
    assert (created.get_attribute("title") or "").endswith(" UTC")
    context.close()


def test_a_link_shows_a_colleague_the_same(page: Page, console: ConsoleUnderTest, pumps: str) -> None:
    sign_in(page, console)
    page.get_by_label("Name").fill("pum")
    expect(page.get_by_role("link", name="Pumps")).to_be_visible()
    page.wait_for_url("**q=pum**")
    page.get_by_label("Status").select_option("error")
    expect(page.get_by_text("No knowledge base matches")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No knowledge base matches")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("pum")
    assert pumps


def test_equal_hits_of_a_comparison_are_connected_where_both_lists_are_beside_each_other(
    page: Page, console: ConsoleUnderTest, examples: dict[str, str]
) -> None:
    sign_in(page, console)
    page.goto(console.url(f"/{examples['kb_id']}/search?q=descale+the+pump&compare=true&b_mode=text"))
    lines, links = page.locator(".twins path"), page.locator("[id^=a-] .twin")
    expect(page.locator(".twins")).to_be_visible()
    expect(links.first).to_be_visible()
    expect(lines).to_have_count(links.count())
    before = lines.last.get_attribute("d")
    page.get_by_text("Why here").first.click()
    expect(lines.last).not_to_have_attribute("d", before or "")
    page.set_viewport_size({"width": 360, "height": 800})
    expect(page.locator(".twins")).to_be_hidden()
    expect(links.first).to_be_visible()
