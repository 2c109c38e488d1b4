"""Pages follow the reader: less motion, the own time zone; and numbers are written for people."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page

from tests.console.conftest import Complaints, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually
from tests.console.page_table import OPERATOR_PAGES, PAGES, ListedPage

pytestmark = pytest.mark.long

_CITED: Final = ListedPage("document-cited", "/knowledge-bases/{kb_id}/documents/{document_id}?cited={chunk_id}")
_ALL: Final = (*PAGES, *OPERATOR_PAGES, _CITED)
# What moves now, and what would move when it is hovered, pressed or changed.
_MOVING: Final = """() => {
    const found = document.getAnimations().map((each) => `runs: ${each.animationName ?? each.transitionProperty}`);
    for (const each of document.querySelectorAll("*")) for (const part of ["", "::before", "::after"]) {
        const style = getComputedStyle(each, part);
        const { animationName, transitionProperty, transitionDuration, scrollBehavior } = style;
        const changes = transitionProperty !== "none" && /[1-9]/.test(transitionDuration);
        if (changes || animationName !== "none" || scrollBehavior === "smooth")
            found.push(`${each.tagName} ${part}: ${animationName} ${transitionProperty} ${scrollBehavior}`);
    }
    return found;
}"""
# The passage has the focus; away from it and back again.
_SCROLLS_AT_ONCE: Final = """async () => {
    const passage = document.querySelector(".cited");
    document.querySelector("main").style.paddingBottom = "300vh";
    scrollTo(0, document.documentElement.scrollHeight);
    passage.blur();
    passage.focus();
    const top = passage.getBoundingClientRect().top;
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    return top >= 0 && top < innerHeight && top === passage.getBoundingClientRect().top;
}"""
_TIMES: Final = (
    """() => [...document.querySelectorAll("time")].map((each) => [each.dateTime, each.title, each.textContent])"""
)
# Not text of the console itself: ids and code, what people have written, the fields of forms.
_OTHER_TEXTS: Final = "time, code, pre, bdi, script, textarea, .text, .rendered, .source, .answer, .tag"
_OWN_TEXTS: Final = """(other) => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (!node.parentElement.closest(other)) texts.push(node.data.replace(/[ \\n\\t]+/g, " "));
    }
    return texts;
}"""
_RAW_NUMBER: Final = re.compile(r"(?<![\w.:/#-])(?:\d{4,}|\d{1,3}(?:[, ]\d{3})+)(?![\w:/-])")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


@pytest.fixture
def large(console: ConsoleUnderTest) -> Iterator[dict[str, str]]:
    """Make more than a thousand of what pages count, and return ids for the pages that count it."""
    console.call("POST", "/tags", {"tag_id": "large", "name": "Large"})
    about = {"name": "Large", "tag_ids": ["large"], "chunk_size": 50, "chunk_overlap": 0}
    kb_id = str(console.call("POST", "/knowledge-bases", about)["kb_id"])
    text = "\n\n".join(f"Rule {number} of the house says what is done at noon. " * 4 for number in range(700))
    document = {"document_name": "rules.md", "tag_ids": ["large"], "upload_date": "2026-01-31T12:00:00Z"}
    console.call("PUT", "/documents/rules", {**document, "text": text})
    eventually(lambda: console.call("GET", f"/knowledge-bases/{kb_id}/documents")["total_count"] == 1)
    console.call("PUT", "/budget", {"soft": 1_234_567, "hard": 12_345_678})
    [last] = console.call("GET", f"/knowledge-bases/{kb_id}/chunks?document_id=rules&skip=1300&limit=1")["chunks"]
    yield {"kb_id": kb_id, "document_id": "rules", "chunk_id": quote(last["chunk_id"], safe="")}
    console.call("PUT", "/budget", {"soft": None, "hard": None})
    console.call("DELETE", f"/knowledge-bases/{kb_id}")


def test_nothing_moves_for_a_reader_who_wants_less_motion(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, examples: dict[str, str]
) -> None:
    complaints.expected.add("404")  # of the document that does not exist
    findings = []
    for listed in open_all(page, console, examples):
        findings += [f"{listed}: {each}" for each in page.evaluate(_MOVING)[:3]]
    page.set_viewport_size({"width": 1280, "height": 400})
    page.goto(console.of_organization(_CITED.path.format_map(examples)))
    if not page.evaluate(_SCROLLS_AT_ONCE):
        findings.append("the way to the cited passage is scrolled")
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_all_times_are_in_the_zone_of_the_reader(
    browser: Browser, console: ConsoleUnderTest, examples: dict[str, str], zone: str
) -> None:
    context = browser.new_context(timezone_id=zone, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    findings, count = [], 0
    for listed in open_all(page, console, examples):
        for at, title, shown in page.evaluate(_TIMES):
            time = datetime.fromisoformat(at)
            local, exact = time.astimezone(ZoneInfo(zone)), time.astimezone(UTC)
            count += 1
            if shown != f"{local:%-d %b %Y, %H:%M}" or title != f"{exact:%Y-%m-%d %H:%M:%S} UTC":
                findings.append(f"{listed}: {at} is shown as {shown!r} with the title {title!r}")
        findings += [
            f"{listed}: {text!r}"
            for text in page.evaluate(_OWN_TEXTS, _OTHER_TEXTS)
            if re.search(r"\dT?\d\d:\d\d", text)
        ]
    context.close()
    assert count > 0
    assert not findings, "\n".join(findings)


def test_numbers_have_thin_spaces_between_thousands(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, *, examples: dict[str, str], large: dict[str, str]
) -> None:
    complaints.expected.add("404")  # as above
    findings, thin = [], 0
    for listed in open_all(page, console, examples | large):
        for text in page.evaluate(_OWN_TEXTS, _OTHER_TEXTS):
            raw = [each for each in _RAW_NUMBER.findall(text) if not _YEAR.fullmatch(each)]
            findings += [f"{listed}: {each} in {text!r}" for each in raw]
            thin += len(re.findall("\\d\N{NARROW NO-BREAK SPACE}\\d", text))
    assert thin > 0
    assert not findings, "\n".join(findings)


def open_all(page: Page, console: ConsoleUnderTest, ids: dict[str, str]) -> Iterator[str]:
    """Open one page after the other, and yield the name of each."""
    page.goto(f"{console.base_url}/console/")
    if page.get_by_label("API key").count():
        sign_in(page, console)
    for listed in _ALL:
        page.goto(console.of_organization(listed.path.format_map(ids)))
        yield listed.name
