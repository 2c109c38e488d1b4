"""All documents of the organization: the list, and changes of several documents at once."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_console.documents.bulk_edits import BulkForm, plan_changes
from kb_console.documents.error_remedies import REMEDIES
from kb_console.errors import UnusableForm
from kb_contracts.api.documents import DocumentView
from tests.unit.console.fake_api import DOCUMENT_ID, KB_ID, FakeApi, example_of

DOCUMENTS = "/console/orgs/acme/documents"
BATCH = "POST /documents:batch"


def _document(**fields: Any) -> DocumentView:
    return DocumentView.model_validate({**example_of(DocumentView), **fields})


def test_bulk_changes_keep_what_they_are_not_about() -> None:
    documents = [
        _document(tag_ids=["a", "b"], metadata={"year": 2020, "x": 1}),
        _document(document_id="d2", tag_ids=["c"]),
    ]
    assert plan_changes(BulkForm("add_tags", "b c"), documents) == [
        {"action": "replace_tags", "document_id": "handbook", "tag_ids": ["a", "b", "c"]},
        {"action": "replace_tags", "document_id": "d2", "tag_ids": ["c", "b"]},
    ]
    assert plan_changes(BulkForm("remove_tags", "b"), documents) == [
        {"action": "replace_tags", "document_id": "handbook", "tag_ids": ["a"]}
    ]
    [changed, _] = plan_changes(BulkForm("set_metadata", properties="year: 2021\nx:"), documents)
    assert changed == {"action": "replace_metadata", "document_id": "handbook", "metadata": {"year": 2021}}
    assert [each["action"] for each in plan_changes(BulkForm("delete"), documents)] == ["delete", "delete"]
    for form in (BulkForm("add_tags"), BulkForm("set_metadata"), BulkForm("set_metadata", properties="x")):
        with pytest.raises(UnusableForm):
            plan_changes(form, documents)


async def test_documents_are_filtered_and_entries_lead_to_themselves(reader: httpx.AsyncClient, api: FakeApi) -> None:
    first: Any = api.answers["GET /documents"]["documents"][0]
    api.answers["GET /documents"]["documents"].append({**first, "document_id": "entry-a", "text_bytes": None})
    page = (await reader.get(f"{DOCUMENTS}?in_no_kb=true&status=failed&tag=hr&sort=-upload_date")).text
    assert dict(api.queries["GET /documents"]) == {
        "tag_id": "hr", "status": "failed", "in_no_kb": "true", "sort": "-upload_date", "limit": "20"
    }  # fmt: skip
    assert "/console/orgs/acme/knowledge/entries/a" in page
    assert page.count('name="document_id"') == 1, "entries are changed on their own pages"
    assert "40.3" in page
    api.answers["GET /documents"] |= {"documents": [], "total_count": 0}
    assert "There is no document yet" in (await reader.get(DOCUMENTS)).text
    assert "Show all" in (await reader.get(f"{DOCUMENTS}?tag=x")).text


async def test_the_address_of_a_document_leads_to_where_it_is(reader: httpx.AsyncClient, api: FakeApi) -> None:
    document: Any = api.answers[f"GET /documents/{DOCUMENT_ID}"]
    kb_id = document["knowledge_bases"][0]["kb_id"]
    led = (await reader.get(f"{DOCUMENTS}/{DOCUMENT_ID}")).headers["location"]
    assert led == f"/console/orgs/acme/knowledge-bases/{kb_id}/documents/{DOCUMENT_ID}"
    document["knowledge_bases"] = []
    assert (await reader.get(f"{DOCUMENTS}/{DOCUMENT_ID}")).status_code == 200
    api.refuse(f"GET /documents/{DOCUMENT_ID}", 404, "not-found")
    unknown = await reader.get(f"{DOCUMENTS}/{DOCUMENT_ID}")
    assert (unknown.status_code, "Nothing has arrived of a document with this id" in unknown.text) == (404, True)


async def test_a_document_that_no_knowledge_base_has_says_why_and_gets_a_tag_there(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    page, call = f"{DOCUMENTS}/{DOCUMENT_ID}", f"GET /documents/{DOCUMENT_ID}"
    api.answers[call] |= {"knowledge_bases": [], "tag_ids": ["unused"]}
    api.answers[f"{call}/text"] |= {"text": "Leave <b>", "start": 20_000, "end": 40_000, "length": 45_000}
    shown = (await reader.get(f"{page}?start=20000")).text
    assert "No knowledge base has one of its tags" in shown
    assert "Leave &lt;b&gt;</div>" in shown
    assert f'<a href="{page}" rel="prev">' in shown
    assert f'<a href="{page}?start=40000" rel="next">' in shown
    assert dict(api.queries[f"{call}/text"]) == {"start": "20000", "end": "40000"}
    saved = await reader.post(f"{page}/tags", data={"tags": "hr"})
    assert (saved.status_code, saved.headers["location"]) == (303, f"{page}?done=tags")
    assert api.bodies[f"PATCH /documents/{DOCUMENT_ID}/tags"] == {"tag_ids": ["hr"]}
    api.refuse(f"{call}/text", 404, "not-found")
    deleted_meanwhile = await reader.get(page)
    assert (deleted_meanwhile.status_code, ">Text</h2>" in deleted_meanwhile.text) == (200, False)


@pytest.mark.parametrize(
    ("deleted_revision", "reason"), [(None, "its text has not"), (7, "Only its revisions are still known")]
)
async def test_a_document_without_a_text_says_so(
    reader: httpx.AsyncClient, api: FakeApi, deleted_revision: int | None, reason: str
) -> None:
    found = {"knowledge_bases": [], "alive": False, "deleted_revision": deleted_revision}
    api.answers[f"GET /documents/{DOCUMENT_ID}"] |= found
    assert reason in (await reader.get(f"{DOCUMENTS}/{DOCUMENT_ID}")).text
    assert f"GET /documents/{DOCUMENT_ID}/text" not in api.calls


async def test_documents_in_no_knowledge_base_are_not_offered_with_states_that_they_can_not_have(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    page = (await reader.get(f"{DOCUMENTS}?in_no_kb=true")).text
    assert ('value="indexed"' in page, 'value="empty"' in page, 'value="failed"' in page) == (False, False, True)
    assert 'value="indexed"' in (await reader.get(DOCUMENTS)).text
    fields = [{"field": "in_no_kb", "message": "Leave it out."}]
    api.refuse("GET /documents", 422, "validation-error", fields=fields)
    refused = await reader.get(f"{DOCUMENTS}?in_no_kb=true&status=indexed&q=hand")
    assert (refused.status_code, "Leave it out." in refused.text) == (422, True)
    for kept in (
        'value="hand"',
        '<option value="indexed" selected>',
        'value="true" checked',
    ):
        assert kept in refused.text, "the filters are kept"
    part = await reader.get(f"{DOCUMENTS}?in_no_kb=true&status=indexed", headers={"HX-Request-Type": "partial"})
    assert ("Leave it out." in part.text, "<h1>" in part.text) == (True, False)


async def test_a_deletion_is_confirmed_with_its_numbers_and_says_what_was_refused(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    assert (await reader.post(f"{DOCUMENTS}/selected")).status_code == 422
    confirm = (await reader.post(f"{DOCUMENTS}/selected", data={"document_id": DOCUMENT_ID})).text
    assert "1 document with 31 passages in 1 knowledge base" in confirm
    assert BATCH not in api.calls
    problem = {"type": "reserved-id", "title": "t", "status": 422, "detail": "It is an entry."}
    api.answers[BATCH]["outcomes"] = [
        {"document_id": DOCUMENT_ID, "revision": None, "changed": False, "problem": problem}
    ]
    done = await reader.post(f"{DOCUMENTS}/change", data={"document_id": DOCUMENT_ID, "edit": "delete"})
    assert api.bodies[BATCH] == {"documents": [{"action": "delete", "document_id": DOCUMENT_ID}]}
    assert "It is an entry." in done.text


async def test_a_bulk_edit_without_a_tag_keeps_the_selection(reader: httpx.AsyncClient, api: FakeApi) -> None:
    form = {"document_id": DOCUMENT_ID, "edit": "add_tags", "tags": " "}
    shown = await reader.post(f"{DOCUMENTS}/change", data=form)
    assert (shown.status_code, BATCH in api.calls) == (422, False)
    assert f'name="document_id" value="{DOCUMENT_ID}"' in shown.text


async def test_files_are_uploaded_with_several_tags(reader: httpx.AsyncClient, api: FakeApi) -> None:
    files = {"file": ("note.md", b"# Note\n\nThe key is under the mat.")}
    sent = await reader.post(f"{DOCUMENTS}/uploads", data={"tag_ids": "a, b"}, files=files)
    assert sent.headers["location"] == f"{DOCUMENTS}?done=uploaded"
    [body] = [body for call, body in api.bodies.items() if call.startswith("PUT /documents/")]
    assert body["tag_ids"] == ["a", "b"]


async def test_documents_of_a_knowledge_base_are_sorted_and_errors_have_a_remedy(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    listed = f"GET /knowledge-bases/{KB_ID}/documents"
    error = {"type": "document_unfit", "message": "It has 9 chunks."}
    api.answers[listed]["documents"][0] |= {"status": "failed", "error": error}
    here = f"/console/orgs/acme/knowledge-bases/{KB_ID}/documents"
    page = (await reader.get(f"{here}?status=failed&sort=-chunk_count")).text
    assert api.queries[listed]["sort"] == "-chunk_count"
    assert 'aria-sort="descending"' in page
    assert f'href="{here}?status=failed&amp;sort=chunk_count"' in page, "filters stay"
    assert "What to do: split the document, or raise" in page
    assert "Retry now" in page


def test_each_error_of_documents_has_a_remedy() -> None:
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "errors.md").read_text()
    types = reference[reference.index("## Error types of documents") :].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", types, re.MULTILINE)) == REMEDIES.keys()


async def test_a_bulk_edit_says_what_was_left_out_of_the_metadata(reader: httpx.AsyncClient, api: FakeApi) -> None:
    warning = {"field": "metadata.?", "message": "the name of key 1 is empty"}
    api.answers[BATCH]["outcomes"] = [{**api.answers[BATCH]["outcomes"][0], "warnings": [warning]}]
    form = {"document_id": DOCUMENT_ID, "edit": "set_metadata", "properties": "year: 2021"}
    done = await reader.post(f"{DOCUMENTS}/change", data=form)
    assert "left out: <code>metadata.?</code> <bdi>the name of key 1 is empty</bdi>" in done.text
