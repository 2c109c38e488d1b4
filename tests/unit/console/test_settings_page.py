"""Settings of a knowledge base: a change of somebody else is never overwritten, and tags change after their effect."""

import json
from typing import Any

import httpx
import pytest

from tests.unit.console.fake_api import KB_ID, FakeApi

SETTINGS = f"/console/orgs/acme/knowledge-bases/{KB_ID}/settings"
UPDATE = f"PUT /knowledge-bases/{KB_ID}"
STORED = {
    "version": '"3"',
    "name": "Handbook",
    "description": "Rules for employees.",
    "tag_ids": "hr",
    "coalesce_neighbors": "0",
    "max_chunks_per_document": "2000",
    "filterable_metadata": "year",
}


@pytest.fixture(autouse=True)
def _stored(api: FakeApi) -> None:
    api.headers[f"GET /knowledge-bases/{KB_ID}"] = {"ETag": '"3"'}
    api.answers[UPDATE] = api.answers[f"GET /knowledge-bases/{KB_ID}"]


async def test_what_was_changed_is_saved_and_nothing_else(reader: httpx.AsyncClient, api: FakeApi) -> None:
    saved = await reader.post(SETTINGS, data={**STORED, "name": "Rules", "min_score": "0.2"})
    assert saved.headers["location"] == f"{SETTINGS}?done=saved"
    assert api.bodies[UPDATE] == {"name": "Rules", "min_score": 0.2}
    assert api.sent_headers[UPDATE]["if-match"] == '"3"'
    unchanged = await reader.post(SETTINGS, data=STORED)
    assert unchanged.headers["location"] == f"{SETTINGS}?done=unchanged"


async def test_tags_change_after_their_effect_was_shown(reader: httpx.AsyncClient, api: FakeApi) -> None:
    documents: Any = api.answers["POST /knowledge-bases/preview"]["documents"]
    documents |= {"document_count": 7, "removed_document_count": 1234}
    known = api.answers["GET /tags"]["tags"][0]["tag_id"]
    changed = {**STORED, "tag_ids": "legal", "new_tags": f"new {known}"}
    shown = await reader.post(SETTINGS, data=changed)
    assert (shown.status_code, UPDATE in api.calls) == (200, False)
    assert "1\N{NARROW NO-BREAK SPACE}234" in shown.text
    assert f'name="seen_tags" value="{known} legal new"' in shown.text
    assert api.bodies["POST /knowledge-bases/preview"]["tag_ids"] == ["legal", known], "a new one has no documents"
    other = await reader.post(SETTINGS, data={**changed, "seen_tags": "legal"})
    assert (other.status_code, UPDATE in api.calls) == (200, False), "not what was seen"
    assert (await reader.post(SETTINGS, data={**changed, "seen_tags": f"{known} legal new"})).status_code == 303
    assert api.bodies[UPDATE] == {"tag_ids": ["legal", "new", known]}
    assert api.bodies["POST /tags"]["tag_id"] == "new"
    assert api.calls.count("POST /tags") == 1, "one that exists keeps its name"


@pytest.mark.parametrize("is_a_race", [False, True])
async def test_a_change_of_somebody_else_is_shown_beside_and_not_overwritten(
    reader: httpx.AsyncClient, api: FakeApi, *, is_a_race: bool
) -> None:
    if is_a_race:
        api.refuse(UPDATE, 412, "precondition-failed")
    else:
        api.headers[f"GET /knowledge-bases/{KB_ID}"] = {"ETag": '"4"'}
    shown = await reader.post(SETTINGS, data={**STORED, "name": "Mine"})
    assert shown.status_code == 412
    assert "<bdi>Mine</bdi></td><td><bdi>Handbook</bdi>" in shown.text
    assert 'value="Mine"' in shown.text, "what was typed is kept"
    assert is_a_race or UPDATE not in api.calls
    assert f'name="version" value="{"&#34;3&#34;" if is_a_race else "&#34;4&#34;"}"' in shown.text


async def test_the_tag_of_entries_stays(reader: httpx.AsyncClient, api: FakeApi) -> None:
    kb = api.answers[f"GET /knowledge-bases/{KB_ID}"]
    kb |= {"kind": "knowledge", "tag_ids": ["kb.knowledge"]}
    page = (await reader.get(SETTINGS)).text
    assert 'name="tag_ids"' not in page
    without_tags = {name: value for name, value in STORED.items() if name != "tag_ids"}
    await reader.post(SETTINGS, data={**without_tags, "description": "Other"})
    assert json.dumps(api.bodies[UPDATE]) == '{"description": "Other"}'
