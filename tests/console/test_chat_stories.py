"""Stories about questions: an answer whose citation leads to its passage, and an agent whose knowledge base goes."""

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually

QUESTION = "How often is the boiler descaled with citric acid?"
FILLER = "Note the day of the work and the name of who did it in the book beside the door of the cellar. " * 3
PAGES = [
    f"# Boiler\n\nDescale the boiler every three months with citric acid, and rinse it twice.\n\n{FILLER}\n\n",
    f"# Burner\n\nThe burner is cleaned by a technician every year, before winter.\n\n{FILLER}\n\n",
]


def write_manual(console: ConsoleUnderTest, pages: list[str]) -> None:
    starts = [sum(len(page) for page in pages[:number]) for number in range(len(pages) + 1)]
    console.call(
        "PUT",
        "/documents/boiler-manual",
        {
            "document_name": "boiler manual.pdf",
            "tag_ids": ["boiler"],
            "upload_date": "2026-01-31T12:00:00Z",
            "text": "".join(pages),
            "pages": [{"page": n + 1, "start": starts[n], "end": starts[n + 1]} for n in range(len(pages))],
        },
    )


@pytest.fixture
def boilers(console: ConsoleUnderTest) -> str:
    """Return the id of a knowledge base with a manual of two pages."""
    console.call("POST", "/tags", {"tag_id": "boiler", "name": "Boilers"})
    found = console.call("GET", "/knowledge-bases?name_search=Boilers")["knowledge_bases"]
    if not found:
        body = {"name": "Boilers", "tag_ids": ["boiler"], "chunk_size": 50, "chunk_overlap": 0}
        found = [console.call("POST", "/knowledge-bases", body)]
    kb_id = str(found[0]["kb_id"])
    write_manual(console, PAGES)
    eventually(lambda: console.call("GET", f"/knowledge-bases/{kb_id}/documents")["total_count"] == 1)
    return kb_id


def test_a_question_leads_to_the_passage_that_its_answer_cites(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, boilers: str
) -> None:
    sign_in(page, console)
    page.goto(console.url(f"/{boilers}"))
    page.get_by_role("link", name="Ask", exact=True).click()
    assert_accessible(page)
    question = page.get_by_label("Question")
    question.fill(QUESTION)
    question.press("Shift+Enter")
    expect(question).to_have_value(QUESTION + "\n")
    # The Enter with which somebody chooses a character in Japanese, Chinese or Korean.
    question.evaluate("each => each.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true}))")
    question.press("Enter")
    turn = page.locator(".turn")
    expect(turn).to_have_count(1)
    chip = turn.locator(".answer .chip").first
    expect(turn.get_by_role("list", name="Sources")).to_contain_text("[1] boiler manual.pdf, p. 1")
    expect(turn).to_have_attribute("aria-busy", "false")
    page.wait_for_url("**/chat/*?kb=*")
    expect(page.get_by_label("Question")).to_have_value("")
    turn.locator("summary").first.click()
    expect(turn.locator(".step").first).to_contain_text("passage")
    assert_accessible(page)

    chip.click()
    passage = page.locator("#passage .cited")
    expect(passage).to_contain_text("Descale the boiler")
    expect(passage).to_be_focused()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()
    expect(passage).to_have_count(0)

    answer, thread = turn.locator(".answer").inner_text(), page.url
    page.reload()
    expect(turn.locator(".answer")).to_have_text(answer, use_inner_text=True)
    expect(page.locator("#chosen")).to_have_text("Boilers")
    page.get_by_text("Answers come from").click()
    expect(page.get_by_role("checkbox", name="Boilers")).to_be_checked()
    document = page.get_by_label("About one document")
    document.focus()
    expect(page.locator("#documents option[value='boiler manual.pdf']")).to_have_count(1)
    document.fill("boiler manual.pdf")
    document.press("Tab")
    expect(page.locator("#chosen")).to_have_text("Boilers, boiler manual.pdf")
    page.wait_for_url("**document=boiler+manual.pdf*")
    turn.locator(".answer .chip").first.click()
    page.get_by_role("link", name="The whole document").click()
    cited = page.locator(".bands .cited")
    expect(cited).to_contain_text("Descale the boiler")
    expect(cited).to_be_focused()
    expect(page.get_by_role("link", name="2", exact=True)).to_have_attribute("href", "#page-2")
    assert_accessible(page)

    page.goto(thread)
    page.get_by_role("button", name="Good answer").click()
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")

    # The document changes, and the answer keeps its passage.
    complaints.expected |= {"404", "410"}
    write_manual(console, ["# Boiler\n\nNever descale it.\n\n", PAGES[1]])
    chunks = f"/knowledge-bases/{boilers}/chunks?document_id=boiler-manual"
    eventually(lambda: "Never" in str(console.call("GET", chunks)))
    page.goto(thread)
    turn.locator(".answer .chip").first.click()
    expect(page.locator("#passage")).to_contain_text("as it was cited")
    expect(passage).to_contain_text("Descale the boiler")


def test_a_question_survives_the_end_of_the_session(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, boilers: str
) -> None:
    assert boilers
    complaints.expected.add("401")
    key = console.call("POST", "/api-keys", {"name": "guest", "scopes": ["read", "search"]})
    sign_in(page, replace(console, api_key=key["api_key"]))
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(page.locator("#chosen")).to_have_text("all knowledge bases")
    page.get_by_label("Question").fill(QUESTION)
    console.call("DELETE", f"/api-keys/{key['key_id']}")
    page.get_by_label("Question").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Your session has ended")
    assert_accessible(page)
    page.get_by_label("API key").fill(console.api_key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Question")).to_have_value(QUESTION)
    page.get_by_label("Question").press("Enter")
    expect(page.locator(".turn .answer")).to_contain_text("every three months")


def test_without_a_script_the_page_with_the_answer_follows(
    browser: Browser, console: ConsoleUnderTest, boilers: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    page.goto(console.of_organization(f"/chat?kb={boilers}"))
    page.get_by_text("Answers come from").click()
    page.get_by_role("link", name="Choose others").click()
    expect(page.get_by_role("checkbox", name="Boilers")).to_be_checked()
    page.get_by_label("Question").fill("When is the burner cleaned by a technician?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".turn .answer")).to_contain_text("every year")
    page.locator(".turn .answer .chip").first.click()
    expect(page.locator(".passages .cited")).to_contain_text("The burner is cleaned")
    context.close()


def test_an_author_builds_an_agent_and_sees_which_tool_broke(page: Page, console: ConsoleUnderTest) -> None:
    console.call("POST", "/tags", {"tag_id": "vent", "name": "Vents"})
    kb_id = console.call("POST", "/knowledge-bases", {"name": "Vents", "tag_ids": ["vent"]})["kb_id"]
    sign_in(page, console)
    page.get_by_role("link", name="Agents", exact=True).click()
    page.get_by_role("link", name="Create").first.click()
    page.get_by_label("Name").fill("Caretaker")
    page.get_by_label("Instructions").fill("Search before you answer.")
    assert_accessible(page)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Caretaker")).to_be_visible()

    page.get_by_role("link", name="Add knowledge base").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Add knowledge base")).to_be_visible()
    assert_accessible(page)
    dialog.get_by_role("button", name="Quick add Vents").click()
    tool = page.locator(".card").first
    expect(tool).to_contain_text("search_vents")
    expect(tool).to_contain_text("top 5 results")
    assert_accessible(page)

    tool.get_by_role("link", name="Edit search_vents").click()
    page.get_by_role("dialog").get_by_label("Results").fill("7")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(tool).to_contain_text("top 7 results")
    page.get_by_role("link", name="Add knowledge base").click()
    expect(page.get_by_role("button", name="Vents is added already")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Add knowledge base")).to_be_focused()

    console.call("DELETE", f"/knowledge-bases/{kb_id}")
    page.reload()
    expect(tool.locator(".problem")).to_contain_text("Knowledge base not found: Vents was deleted.")
    assert_accessible(page)
    tool.get_by_role("button", name="Remove").click()
    expect(page.locator(".card")).to_have_count(0)


@pytest.mark.long
def test_an_agent_is_tried_beside_its_form(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, boilers: str
) -> None:
    agent_id = console.call("POST", "/agents", {"name": "Stoker", "instructions": "Search first."})["agent_id"]
    console.call("POST", f"/agents/{agent_id}/knowledge-base-tools", {"kb_id": boilers})
    sign_in(page, console)
    page.goto(console.of_organization("/agents"))
    page.get_by_role("link", name="Try Stoker").first.click()
    unsaved = page.get_by_text("The form has changes that are not saved")
    expect(unsaved).to_be_hidden()
    question = page.get_by_role("textbox", name="Question")
    question.fill(QUESTION)
    complaints.expected |= {"ERR_FAILED", "Failed to fetch"}
    page.route("**/try", lambda route: route.abort())
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#refused")).to_contain_text("was not reached")
    expect(question).to_have_value(QUESTION)
    page.unroute("**/try")
    page.get_by_role("button", name="Ask", exact=True).click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    page.wait_for_url("**?thread=*")
    turn.locator("summary").first.click()
    expect(turn.locator(".step").first).to_contain_text("search_boilers")
    chip = turn.locator(".answer .chip").first
    chip.click()
    expect(page.locator("#passage .cited")).to_be_focused()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()

    page.get_by_label("Instructions").fill("Search first. Answer in one sentence.")
    expect(unsaved).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The agent was saved.")).to_be_visible()
    expect(unsaved).to_be_hidden()
    expect(turn).to_have_count(1)
    page.get_by_role("textbox", name="Question").fill("When is the burner cleaned by a technician?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(turn).to_have_count(2)
    expect(turn.last).to_have_attribute("aria-busy", "false")


@pytest.mark.long
def test_a_prompt_is_tried_beside_its_form_and_violations_are_marked(
    page: Page, console: ConsoleUnderTest, boilers: str
) -> None:
    # The local model fills in what is listed, with the first value of its type.
    months = {"type": "integer", "exclusiveMinimum": 0}
    schema = {"type": "object", "required": ["unit"], "properties": {"months": months}}
    body = {"name": "Interval", "content": "Say how often.", "kb_ids": [boilers], "schema": schema}
    prompt_id = console.call("POST", "/prompts", body)["prompt_id"]
    sign_in(page, console)
    page.goto(console.of_organization(f"/prompts/{prompt_id}"))
    page.get_by_role("textbox", name="Question").fill(QUESTION)
    page.get_by_label("About one document").fill("boiler-manual")
    page.get_by_role("button", name="Run").click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    page.wait_for_url("**?run=*")
    marked = turn.locator(".answer .violation")
    expect(marked).to_have_text(["{", "0"])
    expect(turn.locator(".answer .note").first).to_contain_text("'unit' is a required property")
    assert_accessible(page)
    expect(page.get_by_role("textbox", name="Question")).to_have_value(QUESTION)
    page.reload()
    expect(marked).to_have_text(["{", "0"])
    page.get_by_role("button", name="Run").click()
    expect(turn).to_have_count(1)
    expect(turn).to_have_attribute("aria-busy", "false")
