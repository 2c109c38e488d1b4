"""Stories of people in a real browser, from the sign-in to a passage that was found."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Complaints, assert_accessible, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest, eventually

MANUAL = """<h1>Pump manual</h1>
<h2>Descaling</h2>
<p>Descale the pump every three months with citric acid. Switch it off first, and wait until the boiler is below 40
degrees. Rinse twice with clear water.</p>
<div style="break-before:page"></div>
<h2>Error E41</h2>
<p>E41 says that the pressure sensor does not answer. Check the plug of the sensor behind the left panel, then call the
service.</p>
<h2>Hostile</h2>
<p>&lt;img src=x onerror=alert(1)&gt; &lt;b hx-get=/console/ hx-trigger=load&gt;</p>"""


@pytest.fixture(scope="session")
def manual(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pdf") / "pump manual.pdf"
    page = browser.new_page()
    page.set_content(MANUAL)
    page.pdf(path=path)
    page.close()
    return path


def test_a_newcomer_comes_from_a_pdf_to_the_passage_that_was_found(
    page: Page, console: ConsoleUnderTest, manual: Path
) -> None:
    sign_in(page, console)
    if not console.call("GET", "/knowledge-bases")["total_count"]:
        expect(page.get_by_role("heading", name="First steps")).to_be_visible()
        assert_accessible(page)

    page.get_by_role("link", name="Create", exact=True).click()
    page.get_by_label("Name").fill("Pumps")
    page.get_by_label("Tags", exact=True).or_(page.get_by_label("Other tags")).fill("manual")
    page.get_by_text("How texts are split").click()
    page.get_by_label("Try it on a text of yours").fill(
        "# One\n\n" + "Sentences of a manual, one after the other. " * 60
    )
    preview = page.locator("#preview h2").last
    expect(preview).to_contain_text("passage")
    before = preview.inner_text()
    page.get_by_label("Chunk size, in tokens").fill("60")
    page.get_by_label("Overlap, in tokens").fill("5")
    expect(preview).not_to_have_text(before)
    assert_accessible(page)
    page.get_by_label("Chunk size, in tokens").fill("")
    page.get_by_label("Overlap, in tokens").fill("")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="Pumps")).to_be_visible()
    expect(page.locator("#kb-status")).to_contain_text("active")
    assert_accessible(page)

    tabs = page.get_by_role("navigation", name="Knowledge base")
    # The next step, unless another story has left documents with this tag.
    page.get_by_role("link", name="Upload files").or_(tabs.get_by_role("link", name="Documents")).first.click()
    page.get_by_label("Upload files").set_input_files(manual)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator("#uploads")).to_contain_text("indexed")
    row = page.get_by_role("row").filter(has_text="pump manual")
    expect(row.locator(".badge")).to_have_text("indexed")
    assert_accessible(page)

    page.get_by_role("navigation", name="Knowledge base").get_by_role("link", name="Search").click()
    page.get_by_label("Query").fill("E41")
    page.get_by_label("Query").press("Enter")
    result = page.locator(".results li", has_text="pressure sensor").first
    expect(result.locator("mark").first).to_have_text("E41")
    assert "q=E41" in page.url, "a search can be sent to somebody as a link"
    assert page.locator("img[src='x'], b[hx-get]").count() == 0, "markup of a document stays text"
    assert_accessible(page)
    page.reload()
    expect(result).to_be_visible()
    page.get_by_label("Query").fill("citric acid")
    page.get_by_label("Query").press("Enter")
    expect(page.locator(".results mark").first).to_have_text("citric")
    page.go_back()
    expect(result.locator(".rendered mark").first).to_have_text("E41")
    expect(page.get_by_label("Query")).to_have_value("E41")
    # A passage as people read it; its source is behind a switch.
    expect(result.locator(".rendered").first).to_be_visible()
    page.get_by_role("switch", name="Show the source").check()
    expect(result.locator(".rendered").first).to_be_hidden()
    expect(result.locator(".source").first).to_be_visible()
    page.get_by_role("switch", name="Show the source").uncheck()

    result.get_by_role("link").first.click()
    passage = page.locator(".bands .cited")
    expect(passage).to_contain_text("Error E41")
    assert passage.evaluate("node => node === document.activeElement")
    expect(passage).to_contain_text("page 2")
    assert_accessible(page)


def test_a_file_that_cannot_be_read_says_why_and_the_others_go_on(
    page: Page, console: ConsoleUnderTest, complaints: Complaints, pumps: str, tmp_path: Path
) -> None:
    complaints.expected.add("422")
    broken, note = tmp_path / "broken.pdf", tmp_path / "note.md"
    broken.write_bytes(b"%PDF-1.4 nothing more")
    note.write_text("# Note\n\nThe key is under the mat.")
    sign_in(page, console)
    page.goto(console.url(f"/{pumps}/documents"))
    page.get_by_label("Upload files").set_input_files([broken, note])
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator("#uploads .problem")).to_contain_text("It is damaged. Save or print it as PDF again.")
    expect(page.get_by_role("row").filter(has_text="note.md").locator(".badge")).to_have_text("indexed")


def test_files_are_dropped_and_the_queue_survives_a_reload(
    page: Page, console: ConsoleUnderTest, complaints: Complaints
) -> None:
    complaints.expected.add("ERR_FAILED")
    console.call("POST", "/tags", {"tag_id": "bolts", "name": "Bolts"})
    bolts = console.call("POST", "/knowledge-bases", {"name": "Bolts", "tag_ids": ["bolts"]})["kb_id"]
    sign_in(page, console)
    page.goto(console.url(f"/{bolts}/documents"))
    # No answer to uploads, as if the page were left while they are sent.
    page.route("**/documents/uploads", lambda route: None)
    page.locator("main").evaluate(
        """main => {
            const transfer = new DataTransfer();
            for (let number = 1; number <= 20; number++)
                transfer.items.add(new File([`# Bolt ${number}\n\nTighten bolt ${number}.`], `bolt ${number}.md`));
            transfer.items.add(new File(["x"], "photo.png"));
            for (const name of ["dragover", "drop"])
                main.dispatchEvent(new DragEvent(name, {dataTransfer: transfer, bubbles: true, cancelable: true}));
        }"""
    )
    items = page.locator("#uploads li")
    expect(items).to_have_count(21)
    expect(items.first).to_contain_text("Files of the type .png can't be read")
    expect(page.locator("#uploads-unseen")).to_contain_text("more below")
    assert_accessible(page)
    kept = """async () => {
        const opening = indexedDB.open("kb-console", 1);
        await new Promise(resolve => opening.onsuccess = resolve);
        const count = opening.result.transaction("uploads").objectStore("uploads").count();
        await new Promise(resolve => count.onsuccess = resolve);
        return count.result;
    }"""
    eventually(lambda: page.evaluate(kept) == 20)
    page.unroute("**/documents/uploads")
    page.reload()
    expect(page.locator("#upload-progress")).to_have_text("20 of 20 files indexed.")
    assert page.evaluate(kept) == 0, "what was sent is not kept"
    assert console.call("GET", f"/knowledge-bases/{bolts}/documents")["total_count"] == 20


def test_who_is_on_call_finds_out_why_a_document_is_not_there(
    page: Page, console: ConsoleUnderTest, pumps: str
) -> None:
    # More chunks than a document may have.
    console.call("PUT", f"/knowledge-bases/{pumps}", {"max_chunks_per_document": 2})
    text = "\n\n".join(f"# Part {number}\n\n" + "Words of a long text. " * 40 for number in range(8))
    document = {"document_name": "long", "tag_ids": ["manual"], "upload_date": "2026-01-31T12:00:00Z", "text": text}
    console.call("PUT", "/documents/long", document)
    sign_in(page, console)
    page.goto(console.url(f"/{pumps}/documents?status=failed"))
    row = page.get_by_role("row").filter(has_text="long")
    failed = f"/knowledge-bases/{pumps}/documents?status=failed"
    eventually(lambda: console.call("GET", failed)["total_count"] == 1)
    page.reload()
    expect(row).to_contain_text("document_unfit")
    row.get_by_role("link", name="long").click()
    expect(page.get_by_role("listitem").filter(has_text="Work on it is done")).to_contain_text("failed")
    assert_accessible(page)
    console.call("PUT", f"/knowledge-bases/{pumps}", {"max_chunks_per_document": 0})
    page.reload()
    if page.get_by_role("button", name="Retry now").count():
        page.get_by_role("button", name="Retry now").click()
    eventually(lambda: console.call("GET", f"/knowledge-bases/{pumps}/documents?name_search=long")["total_count"] == 1)
    page.reload()
    expect(page.locator("#live .badge").first).to_have_text("indexed")


def test_a_knowledge_base_is_deleted_after_its_name_was_typed(
    page: Page, console: ConsoleUnderTest, pumps: str
) -> None:
    console.call("POST", "/tags", {"tag_id": "spare", "name": "Spare"})
    made = console.call("POST", "/knowledge-bases", {"name": "Spare parts", "tag_ids": ["spare"]})
    sign_in(page, console)
    page.goto(console.url(f"/{made['kb_id']}/delete"))
    assert_accessible(page)
    page.get_by_label("Type its name").fill("Spare parts")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").filter(has_text="was deleted")).to_be_visible()
    expect(page.get_by_role("link", name="Pumps")).to_be_visible()
    expect(page.get_by_role("link", name="Spare parts")).to_have_count(0)
    assert pumps


def test_without_a_script_one_can_read_search_create_and_delete(
    browser: Browser, console: ConsoleUnderTest, pumps: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    page.get_by_role("link", name="Pumps").click()
    page.get_by_role("navigation", name="Knowledge base").get_by_role("link", name="Search").click()
    page.get_by_label("Query").fill("descale the pump")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".results li").first).to_be_visible()
    page.goto(console.url("/new"))
    page.get_by_label("Name").fill("Without a script")
    page.get_by_label("Other tags").fill("nothing")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="Without a script")).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type its name").fill("Without a script")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("was deleted")).to_be_visible()
    assert pumps
    context.close()


def test_on_a_phone_the_pages_are_behind_a_menu(browser: Browser, console: ConsoleUnderTest, pumps: str) -> None:
    assert pumps
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    menu, usage = page.get_by_role("button", name="Menu"), page.get_by_role("link", name="Usage")
    expect(usage).to_be_hidden()
    menu.press("Enter")
    expect(usage).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(usage).to_be_hidden()
    menu.click()
    usage.click()
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    context.close()


@pytest.mark.long
def test_without_a_script_files_are_uploaded_and_found(
    browser: Browser, console: ConsoleUnderTest, pumps: str, tmp_path: Path
) -> None:
    files = [tmp_path / "valve.md", tmp_path / "seal.md"]
    for file in files:
        file.write_text(f"# {file.stem}\n\nThe {file.stem} is in the third drawer.")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    sign_in(page, console)
    page.goto(console.url(f"/{pumps}/documents"))
    page.get_by_label("Upload files").set_input_files(files)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="The files were received")).to_be_visible()
    listed = f"/knowledge-bases/{pumps}/documents?name_search="
    eventually(lambda: all(console.call("GET", listed + file.stem)["total_count"] == 1 for file in files))
    page.reload()
    expect(page.get_by_role("row").filter(has_text="valve.md").locator(".badge")).to_have_text("indexed")
    context.close()
