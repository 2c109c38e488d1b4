"""Prompts: what is sent, which knowledge bases can be chosen, and schemas that are none."""

import httpx
import pytest

from kb_console.agents.prompt_form import find_problem_of_schema
from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.fake_runs import PROMPT_ID

PROMPTS = "/console/orgs/acme/prompts"
PROMPT = f"{PROMPTS}/{PROMPT_ID}"
CHANGE = f"PUT /prompts/{PROMPT_ID}"
TYPED = {"name": "Answer", "content": "In <b>.", "kb_ids": [KB_ID], "schema": '{"type": "object"}'}


async def test_a_prompt_is_created_and_changed_in_the_version_that_was_shown(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    created = await reader.post(PROMPTS, data=TYPED)
    assert (created.status_code, created.headers["location"]) == (303, f"{PROMPT}?done=created")
    sent = {"name": "Answer", "content": "In <b>.", "model": None, "schema": {"type": "object"}, "kb_ids": [KB_ID]}
    assert api.bodies["POST /prompts"] == sent | {"auto_search": False}
    api.headers[f"GET /prompts/{PROMPT_ID}"] = {"ETag": '"7"'}
    assert 'name="etag" value="&#34;7&#34;"' in (await reader.get(PROMPT)).text
    without_a_schema = TYPED | {"schema": " ", "kb_ids": [], "etag": '"7"'}
    assert (await reader.post(PROMPT, data=without_a_schema)).status_code == 303
    assert (api.bodies[CHANGE]["schema"], api.bodies[CHANGE]["kb_ids"]) == (None, [])
    assert api.sent_headers[CHANGE]["if-match"] == '"7"'
    api.refuse(CHANGE, 412, "precondition-failed")
    refused = await reader.post(PROMPT, data=TYPED | {"etag": '"7"'})
    assert (refused.status_code, "In &lt;b&gt;.</textarea>" in refused.text) == (412, True)
    assert "<td><bdi>In &lt;b&gt;.</bdi></td>" in refused.text, "both versions"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ('{"a": 1,\n}', "line 2, column 1"),
        ("[1]", "is an object"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5_000, "too many digits"),
        ("", None),
        ('{"type": "string"}', None),
    ],
)
def test_a_schema_that_is_none_says_where(schema: str, problem: str | None) -> None:
    found = find_problem_of_schema(schema)
    assert found is None if problem is None else problem in (found or "")


async def test_a_schema_is_checked_while_it_is_typed_and_when_it_is_saved(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    part = await reader.post(f"{PROMPTS}/schema", data={"schema": "{"})
    assert (part.status_code, "Not JSON in line 1" in part.text, "<html" in part.text) == (200, True, False)
    assert "This is JSON." in (await reader.post(f"{PROMPTS}/schema", data={"schema": "{}"})).text
    refused = await reader.post(PROMPTS, data=TYPED | {"schema": "{"})
    assert (refused.status_code, "Not JSON in line 1" in refused.text) == (422, True)
    assert 'aria-invalid="true"' in refused.text
    assert "POST /prompts" not in api.calls


async def test_a_knowledge_base_in_error_can_not_be_chosen_and_one_that_is_gone_can_be_left_out(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    kb = api.answers["GET /knowledge-bases"]["knowledge_bases"][0]
    kb |= {"status": "error", "status_reason": "No index."}
    assert f'value="{KB_ID}" disabled title="No index."' in (await reader.get(f"{PROMPTS}/new")).text
    assert f'value="{KB_ID}" checked>' in (await reader.get(PROMPT)).text, "so that it can be left out"
    kb |= {"status": "indexing", "status_reason": None}
    page = (await reader.get(f"{PROMPTS}/new")).text
    assert f'value="{KB_ID}">' in page
    assert ">indexing</span>" in page
    api.answers["GET /knowledge-bases"]["knowledge_bases"] = []
    assert "No knowledge bases yet." in (await reader.get(f"{PROMPTS}/new")).text
    assert "not found, or not in this list" in (await reader.get(PROMPT)).text


async def test_a_list_has_an_empty_state_and_a_prompt_is_deleted_after_a_question(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    assert "has answered 1 question" in (await reader.get(f"{PROMPT}/delete")).text
    assert (await reader.post(f"{PROMPT}/delete")).headers["location"] == f"{PROMPTS}?done=deleted"
    assert f"DELETE /prompts/{PROMPT_ID}" in api.calls
    api.answers["GET /prompts"] |= {"prompts": [], "total_count": 0}
    assert "There is no prompt yet." in (await reader.get(PROMPTS)).text


@pytest.mark.parametrize("page", [PROMPTS, f"{PROMPTS}/new", PROMPT, f"{PROMPT}/delete"])
async def test_a_key_that_may_not_write_a_prompt_sees_why(stranger: httpx.AsyncClient, api: FakeApi, page: str) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    shown = await stranger.get(page)
    assert (shown.status_code, "lacks the scope write." in shown.text) == (200, True)
