"""Uploads: what becomes a document, and what is said of the rest."""

from pathlib import Path

import httpx
import pytest

from kb_client.files.file_problem import FileProblem
from kb_console.uploads import describe_file_problem
from tests.unit.console.fake_api import KB_ID, FakeApi

UPLOADS = f"/console/orgs/acme/knowledge-bases/{KB_ID}/documents/uploads"
AS_SCRIPT = {"Accept": "application/json"}


async def test_a_file_becomes_a_document_with_the_tag(reader: httpx.AsyncClient, api: FakeApi) -> None:
    files = {"file": ("notes/My note.md", b"# Note\n\nThe key is under the mat.")}
    answer = await reader.post(UPLOADS, data={"tag_id": "hr"}, files=files, headers=AS_SCRIPT)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"detail": "received", "document_id": "handbook", "revision": 1, "warnings": []}
    [(call, sent)] = api.bodies.items()
    assert call.startswith("PUT /documents/console.my-note-")
    assert (sent["tag_ids"], sent["document_name"]) == (["hr"], "My note.md")
    without_a_script = await reader.post(UPLOADS, data={"tag_id": "hr"}, files=files)
    assert (without_a_script.status_code, without_a_script.headers["location"][-13:]) == (303, "done=uploaded")


async def test_files_of_a_folder_with_the_same_name_are_different_documents(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    for path in ("manuals/a/read me.md", "manuals/../b/read me.md"):
        form = {"tag_id": "hr", "path": path}
        sent = await reader.post(UPLOADS, data=form, files={"file": ("read me.md", b"# Note")}, headers=AS_SCRIPT)
        assert sent.status_code == 202, sent.text
    assert [body["document_name"] for body in api.bodies.values()] == ["manuals/a/read me.md", "manuals/b/read me.md"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("damaged.pdf", b"%PDF-1.4 nothing more", "It is damaged. Save or print it as PDF again."),
        ("photo.PNG", b"\x89PNG", "Files of the type .png can't be read. Leave it out, or save it in another format."),
        ("letter.doc", b"\xd0\xcf", "Files of the type .doc can't be read"),
        ("empty.txt", b"", "It has no text. Leave it out."),
    ],
)
async def test_a_file_that_is_no_document_says_why(
    reader: httpx.AsyncClient, api: FakeApi, name: str, content: bytes, words: str
) -> None:
    answer = await reader.post(UPLOADS, data={"tag_id": "hr"}, files={"file": (name, content)}, headers=AS_SCRIPT)
    detail = answer.json()["detail"]
    assert (answer.status_code, words in detail) == (422, True), detail
    assert name not in detail, "the page shows the name beside it"
    assert "Error" not in detail, "the name of an exception helps no reader"
    assert api.bodies == {}


def test_a_scan_is_explained_without_an_option_of_the_command_line_alone() -> None:
    problem = FileProblem(Path("scan.pdf"), "it is a scan without text", "push it with --ocr, which needs tesseract")
    words = describe_file_problem(problem)
    assert words.startswith("It is a scan without text. Save it with recognized text (OCR), or push it with `kb docs")


async def test_what_was_guessed_in_a_file_is_said(reader: httpx.AsyncClient) -> None:
    files = {"file": ("old.txt", "Gr\u00f6\u00dfe und Ma\u00df".encode("cp1252"))}
    answer = await reader.post(UPLOADS, data={"tag_id": "hr"}, files=files, headers=AS_SCRIPT)
    assert (answer.status_code, len(answer.json()["warnings"])) == (202, 1), answer.text


async def test_the_page_tells_the_limits_of_files_before_they_bite(reader: httpx.AsyncClient) -> None:
    for page in (UPLOADS.removesuffix("/uploads"), "/console/orgs/acme/documents"):
        shown = (await reader.get(page)).text
        assert "at most 20.0\N{NARROW NO-BREAK SPACE}MB each" in shown
        assert 'data-max-bytes="20000000" data-endings=".csv .docx .eml' in shown


async def test_an_upload_after_the_end_of_the_session_says_so(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.post(UPLOADS, data={"tag_id": "hr"}, files={"file": ("a.md", b"# A")}, headers=AS_SCRIPT)
    assert (answer.status_code, "Your session has ended" in answer.json()["detail"]) == (401, True)


async def test_an_upload_needs_a_file_a_tag_and_a_size_within_the_limit(reader: httpx.AsyncClient) -> None:
    nothing = await reader.post(UPLOADS, data={"tag_id": "hr"}, files={"file": ("", b"")}, headers=AS_SCRIPT)
    assert nothing.json()["detail"] == "Choose a file first."
    untagged = await reader.post(UPLOADS, files={"file": ("a.txt", b"a")}, headers=AS_SCRIPT)
    assert "There is no tag" in untagged.json()["detail"]
    huge = await reader.post(UPLOADS, data={"tag_id": "hr"}, files={"file": ("a.txt", b"a" * 20_200_000)})
    assert (huge.status_code, "20.1" in huge.text) == (413, True)
    huge = await reader.post(UPLOADS, files={"file": ("a.txt", b"a" * 20_200_000)}, headers=AS_SCRIPT)
    assert "Too large" in huge.json()["detail"], "the script shows it beside the file"


async def states_of(reader: httpx.AsyncClient, *uploaded: str) -> list[tuple[str, str, bool]]:
    answer = await reader.get("/console/orgs/acme/documents/upload-states", params={"uploaded": list(uploaded)})
    assert answer.status_code == 200, answer.text
    return [(each["document_id"], each["words"], each["is_final"]) for each in answer.json()]


async def test_an_uploaded_document_is_followed_until_all_knowledge_bases_are_done_with_it(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    document = api.answers["GET /documents"]["documents"][0]
    document.update(document_id="d1", text_revision=2)
    placements = {"running": [("a", "indexed"), ("b", "running")], "failed": [("a", "running"), ("b", "failed")]}
    document["knowledge_bases"] = [{"kb_id": kb, "status": status} for kb, status in placements["running"]]
    assert await states_of(reader, "d1:2", "d2:1") == [("d1", "being indexed", False), ("d2", "received", False)]
    assert await states_of(reader, "d1:3") == [("d1", "received", False)], "indexed is only the text before"
    document["knowledge_bases"] = [{"kb_id": kb, "status": status} for kb, status in placements["failed"]]
    assert await states_of(reader, "d1:2") == [("d1", "failed", True)]
    document["knowledge_bases"] = [{"kb_id": "a", "status": "indexed"}]
    assert await states_of(reader, "d1:2") == [("d1", "indexed", True)]
    document["knowledge_bases"] = []
    assert await states_of(reader, "d1:2") == [("d1", "in no knowledge base", False)]


@pytest.mark.parametrize("uploaded", ["", "d1", "d1:x", "a,b:1", "../x:1"])
async def test_what_names_no_upload_is_refused(reader: httpx.AsyncClient, uploaded: str) -> None:
    answer = await reader.get("/console/orgs/acme/documents/upload-states", params={"uploaded": uploaded})
    assert answer.status_code == 422
