"""The stories of the console once more, with the keyboard alone: Tab, Enter, Space, arrows and Escape."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Complaints
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually
from tests.console.keyboard import Keyboard

pytestmark = pytest.mark.long

QUESTION = "How often is the boiler of the cellar descaled with citric acid?"
ANSWER = "# Boiler\n\nDescale the boiler of the cellar every three months with citric acid, and rinse it twice."


@pytest.fixture(scope="module")
def signed_in(browser: Browser, console: ConsoleUnderTest) -> Iterator[Page]:
    """Sign in with the keyboard; all stories of this file share the window."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.base_url}/console/")
    keys = Keyboard(page)
    keys.write(page.get_by_label("API key"), console.api_key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    yield page
    context.close()


@pytest.fixture
def keys(signed_in: Page, console: ConsoleUnderTest) -> Iterator[Keyboard]:
    """Begin on the first page, and accept no complaint of the browser."""
    noted = Complaints(console.base_url)
    noted.watch(signed_in.context)
    signed_in.goto(console.url())
    yield Keyboard(signed_in)
    assert noted.unexpected() == []


def enter(keys: Keyboard, path: str) -> None:
    """Follow a link of the navigation."""
    keys.press(keys.page.locator(f"header a[href$='/{path}']"))


def test_a_newcomer_creates_a_knowledge_base_uploads_a_file_and_finds_its_passage(
    keys: Keyboard, tmp_path: Path
) -> None:
    page, file = keys.page, tmp_path / "cellar.md"
    file.write_text(ANSWER)
    keys.press(page.get_by_role("link", name="Create", exact=True))
    keys.write(page.get_by_label("Name"), "Cellar")
    keys.write(page.get_by_label("Tags", exact=True).or_(page.get_by_label("Other tags")), "cellar")
    keys.press(page.locator("summary", has_text="How texts are split"))
    keys.go_to(page.get_by_label("Chunker"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    keys.press(page.get_by_role("button", name="Create", exact=True))
    expect(page.get_by_role("heading", name="Cellar")).to_be_visible()

    keys.press(page.get_by_role("navigation", name="Knowledge base").get_by_role("link", name="Documents"))
    keys.choose_file(page.get_by_label("Upload files"), file)
    keys.press(page.get_by_role("button", name="Upload", exact=True), "Space")
    expect(page.locator("#uploads")).to_contain_text("indexed")

    keys.press(page.get_by_role("navigation", name="Knowledge base").get_by_role("link", name="Search"))
    keys.write(page.get_by_label("Query"), "rinse the boiler")
    page.keyboard.press("Enter")
    result = page.locator(".results li").first
    expect(result).to_contain_text("rinse it twice")
    keys.press(result.locator("summary").first, "Space")
    expect(result.locator("details").first).to_have_attribute("open", "")
    keys.press(result.get_by_role("link").first)
    expect(page.locator(".bands .cited")).to_be_focused()


def test_a_question_leads_to_the_passage_and_escape_leads_back(keys: Keyboard, console: ConsoleUnderTest) -> None:
    page, kb_id = keys.page, make_knowledge_base(console, "Boiler room")
    document = {"document_name": "boiler.md", "tag_ids": ["boiler-room"], "upload_date": "2026-01-31T12:00:00Z"}
    console.call("PUT", "/documents/boiler-room", {**document, "text": ANSWER})
    eventually(lambda: console.call("GET", f"/knowledge-bases/{kb_id}/documents")["total_count"] == 1)
    enter(keys, "chat")
    keys.press(page.locator("#choice summary"))
    keys.press(page.get_by_role("checkbox", name="Boiler room"), "Space")
    expect(page.locator("#chosen")).to_have_text("Boiler room")
    keys.write(page.get_by_role("textbox", name="Question"), QUESTION)
    page.keyboard.press("Enter")
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    chip = turn.locator(".answer .chip").first
    keys.go_to(chip, backwards=True)
    page.keyboard.press("Enter")
    passage = page.locator("#passage .cited")
    expect(passage).to_be_focused()
    expect(passage).to_contain_text("citric acid")
    page.keyboard.press("Escape")
    expect(passage).to_have_count(0)
    expect(chip).to_be_focused()
    keys.press(turn.get_by_role("button", name="Good answer"), "Space")
    expect(turn.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")


def test_an_author_adds_a_tool_to_an_agent_in_the_dialog(keys: Keyboard, console: ConsoleUnderTest) -> None:
    page = keys.page
    make_knowledge_base(console, "Attic")
    enter(keys, "agents")
    keys.press(page.get_by_role("link", name="Create").first)
    keys.write(page.get_by_label("Name"), "Night watch")
    keys.write(page.get_by_label("Instructions"), "Search before you answer.")
    keys.press(page.get_by_role("button", name="Create"))

    opener, dialog = page.get_by_role("link", name="Add knowledge base"), page.get_by_role("dialog")
    keys.press(opener)
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    keys.press(dialog.get_by_role("link", name="Configure Attic"))
    keys.write(dialog.get_by_label("Results"), "7")
    keys.press(dialog.get_by_role("button", name="Add"))
    tool = page.locator(".card").first
    expect(tool).to_contain_text("top 7 results")

    keys.press(tool.get_by_role("link", name="Edit search_attic"))
    keys.go_to(dialog.get_by_label("Results"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(tool).to_contain_text("top 6 results")
    keys.press(tool.get_by_role("button", name="Remove"))
    expect(tool).to_have_count(0)


def test_a_curator_writes_an_entry(keys: Keyboard) -> None:
    page = keys.page
    enter(keys, "knowledge")
    keys.press(page.get_by_role("link", name="Write an entry").first)
    keys.write(page.get_by_label("Title"), "Where the spare key is")
    keys.write(page.get_by_role("textbox", name="Content"), "The spare key hangs behind the door of the workshop.")
    kind = page.get_by_label("Kind of knowledge")
    before = kind.input_value()
    keys.go_to(kind)
    page.keyboard.press("ArrowDown")
    expect(kind).not_to_have_value(before)
    keys.press(page.get_by_role("button", name="Save"))
    expect(page.locator("#live .badge")).to_have_text("searchable")


def test_who_is_on_call_retries_a_document_and_handles_a_dead_letter(
    keys: Keyboard, console: ConsoleUnderTest, failing: str
) -> None:
    page = keys.page
    assert failing
    eventually(lambda: console.call("GET", "/dead-letters")["total_count"] >= 1)
    enter(keys, "operations")
    tabs = page.get_by_role("navigation", name="Operations")
    keys.press(tabs.get_by_role("link", name="Failed documents"))
    keys.press(page.get_by_role("row").filter(has_text="night.md").get_by_role("button", name="Retry now"))
    expect(page.get_by_role("status").filter(has_text="is tried again now")).to_be_visible()

    enter(keys, "operations")
    keys.press(tabs.get_by_role("link", name="Dead letters"))
    # Closed ones too: another story may have been here.
    shown = page.get_by_label("Which")
    keys.go_to(shown)
    page.keyboard.press("End")
    letter = page.get_by_role("row").filter(has_text="unreadable").first
    keys.press(letter.get_by_role("link").first)
    keys.press(page.get_by_role("button", name="Send again"), "Space")
    expect(page.get_by_role("status")).to_contain_text("sent to its topic again")


def test_an_admin_sets_a_budget_and_revokes_a_key(keys: Keyboard, console: ConsoleUnderTest) -> None:
    page = keys.page
    enter(keys, "usage")
    keys.press(page.get_by_role("link", name="Change the budget"))
    keys.write(page.get_by_label("Hard limit, in SPUs"), "2000000")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The budget was changed")
    console.call("PUT", "/budget", {"soft": None, "hard": None})

    enter(keys, "settings/keys")
    keys.write(page.get_by_label("Name"), "night robot")
    keys.press(page.get_by_label("write", exact=False).first, "Space")
    keys.press(page.get_by_role("button", name="Create"))
    keys.press(page.get_by_role("link", name="Done"))
    keys.press(page.get_by_role("row").filter(has_text="night robot").first.get_by_role("link", name="Revoke"))
    keys.press(page.get_by_role("button", name="Revoke"))
    expect(page.get_by_role("row").filter(has_text="night robot").first).to_contain_text("revoked")


def make_knowledge_base(console: ConsoleUnderTest, name: str) -> str:
    tag_id = name.lower().replace(" ", "-")
    console.call("POST", "/tags", {"tag_id": tag_id, "name": name})
    return str(console.call("POST", "/knowledge-bases", {"name": name, "tag_ids": [tag_id]})["kb_id"])
