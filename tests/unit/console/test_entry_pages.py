"""Entries: the list, one entry, and a new one."""

from typing import Any

import httpx
import pytest

from tests.unit.console.fake_api import FakeApi
from tests.unit.console.knowledge_answers import ENTRY_ID

KNOWLEDGE = "/console/orgs/acme/knowledge"
ENTRY = f"{KNOWLEDGE}/entries/{ENTRY_ID}"
CHANGE = f"PATCH /knowledge-entries/{ENTRY_ID}"
TYPED = {
    "version": '"7"',
    "title": "Initial state of a transient LES",
    "content": "Initialize transient LES from converged RANS: that cuts spin-up by about 40 %.",
    "tags": "les, rans",
    "type": "note",
    "knowledge_type": "procedure",
    "info_type": "instructions",
}


@pytest.fixture(autouse=True)
def _stored(api: FakeApi) -> None:
    api.headers[f"GET /knowledge-entries/{ENTRY_ID}"] = {"ETag": '"7"'}


async def test_the_list_keeps_its_filters_but_not_the_cursor_of_others(reader: httpx.AsyncClient, api: FakeApi) -> None:
    page: Any = api.answers["GET /knowledge-entries"]
    page |= {"has_more": True, "next_cursor": "abc"}
    page["entries"][0]["cites_30d"] = 0
    shown = (await reader.get(f"{KNOWLEDGE}?status=ready&since=2026-01-31&cursor=xyz")).text
    assert f"{KNOWLEDGE}?status=ready&amp;since=2026-01-31&amp;cursor=abc" in shown
    assert 'name="cursor"' not in shown, "a changed filter begins at the first page"
    assert '<td class="number">0</td>' in shown, "no citation is 0, and not a dash"
    asked = api.queries["GET /knowledge-entries"]
    assert (asked["from"], asked["embedding_status"], asked["cursor"]) == ("2026-01-31T00:00:00Z", "ready", "xyz")


async def test_empty_lists_say_why(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /knowledge-entries"] |= {"entries": [], "total_count": 0}
    assert "There is no entry yet" in (await reader.get(KNOWLEDGE)).text
    assert "Show all" in (await reader.get(f"{KNOWLEDGE}?q=x")).text
    api.answers["GET /knowledge/search"] |= {"hits": []}
    assert "No entry was found" in (await reader.get(f"{KNOWLEDGE}/search?q=x")).text


async def test_pages_ask_again_while_an_entry_is_pending(reader: httpx.AsyncClient, api: FakeApi) -> None:
    for page in (KNOWLEDGE, ENTRY):
        assert 'id="poll"' not in (await reader.get(page)).text
    api.answers["GET /knowledge-entries"]["totals"]["by_status"]["pending"] = 1
    api.answers[f"GET /knowledge-entries/{ENTRY_ID}"]["embedding_status"] = "pending"
    for page in (KNOWLEDGE, ENTRY):
        assert 'id="poll"' in (await reader.get(page)).text


async def test_an_edit_sends_what_was_changed_and_never_overwrites(reader: httpx.AsyncClient, api: FakeApi) -> None:
    saved = await reader.post(ENTRY, data={**TYPED, "content": "One.\r\nTwo.", "info_type": ""})
    assert saved.headers["location"] == f"{ENTRY}?done=saved"
    assert api.bodies[CHANGE] == {"content": "One.\nTwo.", "info_type": None}
    assert api.sent_headers[CHANGE]["if-match"] == '"7"'
    api.headers[f"GET /knowledge-entries/{ENTRY_ID}"] = {"ETag": '"8"'}
    shown = await reader.post(ENTRY, data={**TYPED, "title": "Mine"})
    assert (shown.status_code, "<bdi>Mine</bdi>" in shown.text) == (412, True)
    assert "Save mine over theirs" in shown.text


async def test_an_entry_that_is_refused_keeps_what_was_typed(reader: httpx.AsyncClient, api: FakeApi) -> None:
    fields = [{"field": "content", "message": "contains a credential (password) in line 1"}]
    api.refuse("POST /knowledge-entries", 422, "sensitive-content", fields=fields)
    typed = {"title": "A", "content": "password: x", "tags": "a b"}
    shown = await reader.post(f"{KNOWLEDGE}/new", data=typed)
    assert shown.status_code == 422
    assert "contains a credential" in shown.text
    assert 'value="a b"' in shown.text
    assert 'name="override_reason"' in shown.text
    assert 'name="override_reason"' not in (await reader.get(f"{KNOWLEDGE}/new")).text
    api.problems.clear()
    made = await reader.post(f"{KNOWLEDGE}/new", data={**typed, "override_reason": " It is an example. "})
    assert made.headers["location"] == f"{ENTRY}?done=created"
    assert api.bodies["POST /knowledge-entries"]["override_reason"] == "It is an example."
    await reader.post(ENTRY, data={**TYPED, "title": "password: x", "override_reason": "It is an example."})
    assert api.bodies[CHANGE] == {"title": "password: x", "override_reason": "It is an example."}
    assert api.bodies["POST /knowledge-entries"]["tags"] == ["a", "b"]


async def test_only_web_addresses_of_sources_become_links(reader: httpx.AsyncClient, api: FakeApi) -> None:
    entry = api.answers[f"GET /knowledge-entries/{ENTRY_ID}"]
    entry["source_url"] = "javascript:alert(1)"
    assert 'href="javascript' not in (await reader.get(ENTRY)).text
    entry["source_url"] = "https://example.com/a"
    assert 'href="https://example.com/a" rel="noreferrer noopener"' in (await reader.get(ENTRY)).text


async def test_only_admins_delete(reader: httpx.AsyncClient, api: FakeApi) -> None:
    assert 'disabled title="Your API key lacks the scope admin."' in (await reader.get(f"{ENTRY}/delete")).text
    assert (await reader.post(f"{ENTRY}/delete")).status_code == 303
    assert f"DELETE /knowledge-entries/{ENTRY_ID}" in api.calls
