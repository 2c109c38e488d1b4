"""Uploads: what becomes a document, and what is said of the rest."""

import httpx
import pytest

from tests.unit.console.fake_api import KB_ID, FakeApi

UPLOADS = f"/console/orgs/acme/knowledge-bases/{KB_ID}/documents/uploads"
AS_SCRIPT = {"Accept": "application/json"}


async def test_a_file_becomes_a_document_with_the_tag(reader: httpx.AsyncClient, api: FakeApi) -> None:
    files = {"file": ("notes/My note.md", b"# Note\n\nThe key is under the mat.")}
    answer = await reader.post(UPLOADS, data={"tag_id": "hr"}, files=files, headers=AS_SCRIPT)
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"detail": "received", "document_id": "handbook", "revision": 1}
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
        ("scan.pdf", b"%PDF-1.4 nothing more", "Remedy"),
        ("program.exe", b"MZ", "Remedy"),
        ("empty.txt", b"", "no text"),
    ],
)
async def test_a_file_that_is_no_document_says_why(
    reader: httpx.AsyncClient, api: FakeApi, name: str, content: bytes, words: str
) -> None:
    answer = await reader.post(UPLOADS, data={"tag_id": "hr"}, files={"file": (name, content)}, headers=AS_SCRIPT)
    assert (answer.status_code, words in answer.json()["detail"]) == (422, True)
    assert api.bodies == {}


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
