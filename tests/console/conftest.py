"""A real Chromium, in front of a whole stack. Any complaint of the browser fails a test."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually

ROOT: Final = Path(__file__).parents[2]
PROJECT_PYTHON: Final = os.environ.get("KB_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
AXE: Final = (Path(__file__).with_name("vendor") / "axe.min.js").read_text()
RULES: Final = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']}"
expect.set_options(timeout=WAIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the newcomer's story first: only then there is no knowledge base yet."""
    items.sort(key=lambda item: "a_newcomer" not in item.name)


@pytest.fixture(scope="session")
def console() -> Iterator[ConsoleUnderTest]:
    """Start a stack; one that runs already is used instead, if KB_TEST_CONSOLE has the line that it printed."""
    if (running := os.environ.get("KB_TEST_CONSOLE")) is not None:
        yield ConsoleUnderTest(**json.loads(running))
        return
    process = subprocess.Popen(
        [PROJECT_PYTHON, "-m", "tests.console.deployment"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # Behind the log of the stack.
        line = next(line for line in process.stdout if '"base_url"' in line)
        yield ConsoleUnderTest(**json.loads(line))
    finally:
        process.stdin.close()
        process.wait(WAIT_MS / 1000)
        process.stdout.close()


def find_chromium() -> str:
    """Return the path of Debian's Chromium, or of the one that CHROMIUM names."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if found is None:
        pytest.fail("Chromium is missing: apt-get install chromium, or set CHROMIUM to its path", pytrace=False)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@dataclass(slots=True)
class Complaints:
    """Collects what the browser says about pages, and requests to other hosts."""

    own: str
    found: list[str] = field(default_factory=list)
    expected: set[str] = field(default_factory=set)
    """Parts of messages that a test causes on purpose."""

    def watch(self, context: BrowserContext) -> None:
        context.on("console", lambda said: self._note(said.text) if said.type in {"error", "warning"} else None)
        context.on("weberror", lambda error: self._note(str(error.error)))
        context.on("request", lambda request: self._ask(request.url))

    def _note(self, text: str) -> None:
        self.found.append(text)

    def _ask(self, url: str) -> None:
        if not url.startswith((self.own, "data:", "about:")):
            self.found.append(f"request to {url}")

    def unexpected(self) -> list[str]:
        return [each for each in self.found if not any(part in each for part in self.expected)]


@pytest.fixture
def complaints(console: ConsoleUnderTest) -> Iterator[Complaints]:
    noted = Complaints(console.base_url)
    yield noted
    assert noted.unexpected() == []


@pytest.fixture
def page(browser: Browser, complaints: Complaints) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    complaints.watch(context)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    yield page
    context.close()


@pytest.fixture(scope="session")
def examples(console: ConsoleUnderTest) -> Iterator[dict[str, str]]:
    """Make the data that the table of pages shows, and return its ids by their names."""
    from tests.console.example_data import make_examples, serve_site  # it imports this file

    with serve_site() as site:
        yield make_examples(console, site=site)


@pytest.fixture
def pumps(console: ConsoleUnderTest) -> str:
    """Return the id of the knowledge base of the newcomer's story, which is made here if that did not run."""
    found = console.call("GET", "/knowledge-bases?name_search=Pumps")["knowledge_bases"]
    if not found:
        console.call("POST", "/tags", {"tag_id": "manual", "name": "manual"})
        found = [console.call("POST", "/knowledge-bases", {"name": "Pumps", "tag_ids": ["manual"]})]
    return str(found[0]["kb_id"])


FAILING_TAG: Final = "on-call"


@pytest.fixture
def failing(console: ConsoleUnderTest) -> Iterator[str]:
    """Return the id of a knowledge base in which one document has failed, because it has too many chunks."""
    console.call("POST", "/tags", {"tag_id": FAILING_TAG, "name": "On call"})
    body = {"name": "Night shift", "tag_ids": [FAILING_TAG], "max_chunks_per_document": 2}
    kb_id = str(console.call("POST", "/knowledge-bases", body)["kb_id"])
    text = "\n\n".join(f"# Part {number}\n\n" + "Words of a long text. " * 40 for number in range(8))
    document = {"document_name": "night.md", "tag_ids": [FAILING_TAG], "upload_date": "2026-01-31T12:00:00Z"}
    console.call("PUT", "/documents/night", {**document, "text": text})
    failed = f"/knowledge-bases/{kb_id}/documents?status=failed"
    eventually(lambda: console.call("GET", failed)["total_count"] == 1)
    yield kb_id
    console.call("DELETE", f"/knowledge-bases/{kb_id}")


def sign_in(page: Page, console: ConsoleUnderTest) -> None:
    page.goto(f"{console.base_url}/console/")
    page.get_by_label("API key").fill(console.api_key)
    page.get_by_role("button", name="Sign in").click()
    # On a phone it is in the menu.
    expect(page.get_by_role("button", name=re.compile("^(Sign out|Menu)$"))).to_be_visible()


def assert_accessible(page: Page) -> None:
    found = page.evaluate(f"{AXE}; axe.run({RULES})")
    broken = [(each["id"], each["nodes"][0]["html"][:160], len(each["nodes"])) for each in found["violations"]]
    assert broken == [], page.url
