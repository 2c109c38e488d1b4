"""Agents and their tools: what is sent, what stays in a dialog, and a tool whose knowledge base is gone."""

from typing import Any

import httpx
import pytest

from tests.unit.console.fake_api import KB_ID, FakeApi
from tests.unit.console.fake_runs import AGENT_ID, TOOL_ID

AGENTS = "/console/orgs/acme/agents"
AGENT = f"{AGENTS}/{AGENT_ID}"
CHANGE = f"PUT /agents/{AGENT_ID}"
ADD = f"POST /agents/{AGENT_ID}/knowledge-base-tools"
AVAILABLE = f"GET /agents/{AGENT_ID}/available-knowledge-bases"


async def test_an_agent_is_created_and_changed_in_the_version_that_was_shown(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    typed = {"name": "Support", "instructions": "Search.", "model": "", "max_iterations": "3", "auto_search": "on"}
    typed |= {"temperature": "0.4", "max_output_tokens": ""}
    created = await reader.post(AGENTS, data=typed)
    assert (created.status_code, created.headers["location"]) == (303, f"{AGENT}?done=created")
    sent: dict[str, Any] = {"name": "Support", "instructions": "Search.", "model": None, "max_iterations": 3}
    sent["auto_search"] = True
    sent |= {"temperature": 0.4, "max_output_tokens": None}
    assert api.bodies["POST /agents"] == sent
    api.headers[f"GET /agents/{AGENT_ID}"] = {"ETag": '"7"'}
    assert 'name="etag" value="&#34;7&#34;"' in (await reader.get(AGENT)).text
    assert (await reader.post(AGENT, data=typed | {"etag": '"7"'})).status_code == 303
    assert api.sent_headers[CHANGE]["if-match"] == '"7"'
    api.refuse(CHANGE, 412, "precondition-failed")
    api.headers[f"GET /agents/{AGENT_ID}"] = {"ETag": '"8"'}
    refused = await reader.post(AGENT, data=typed | {"name": "Mine <b>", "etag": '"7"'})
    assert (refused.status_code, 'value="Mine &lt;b&gt;"' in refused.text) == (412, True)
    assert "<td><bdi>Mine &lt;b&gt;</bdi></td><td><bdi>Support</bdi></td>" in refused.text, "both versions"
    assert 'name="etag" value="&#34;8&#34;"' in refused.text, "the next save is over the version that was seen"
    unsent = await reader.post(AGENTS, data=typed | {"max_iterations": "many"})
    assert (unsent.status_code, "whole number" in unsent.text) == (422, True)


async def test_a_knowledge_base_is_added_at_once_or_with_settings_and_refusals_stay_in_the_dialog(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers[AVAILABLE]["knowledge_bases"][0]["is_linked"] = False
    listed = (await reader.get(f"{AGENT}?add=list")).text
    assert f'data-back="{AGENT}" data-opener="add-tool"' in listed
    assert 'id="add-tool"' in listed, "which gets the focus when the dialog is closed"
    assert f'name="quick" value="{KB_ID}"' in listed
    assert (await reader.post(f"{AGENT}/tools", data={"quick": KB_ID})).status_code == 303
    assert api.bodies[ADD] == {"kb_id": KB_ID}, "name, description and limits are those of the API"
    typed = {"kb_id": KB_ID, "tool_name": "look", "tool_description": "Look <b>", "default_top_k": "7"}
    await reader.post(f"{AGENT}/tools", data=typed | {"default_min_score": "0.4"})
    assert api.bodies[ADD] == typed | {"default_top_k": 7, "default_min_score": 0.4}
    api.refuse(ADD, 400, "tool-exists")
    for sent in ({"quick": KB_ID}, typed):
        refused = (await reader.post(f"{AGENT}/tools", data=sent)).text
        dialog = refused[refused.index("<dialog open") :]
        assert "Detail of tool-exists." in dialog
        assert refused.count("Detail of tool-exists.") == 1
    assert "Look &lt;b&gt;</textarea>" in refused
    unsent = await reader.post(f"{AGENT}/tools", data=typed | {"default_min_score": "low"})
    assert (unsent.status_code, "must be a number" in unsent.text) == (422, True)


async def test_what_is_linked_can_not_be_added_again(reader: httpx.AsyncClient) -> None:
    assert 'disabled title="It is a tool of this agent already."' in (await reader.get(f"{AGENT}?add=list")).text


async def test_a_tool_is_changed_and_removed(reader: httpx.AsyncClient, api: FakeApi) -> None:
    edit = (await reader.get(f"{AGENT}?edit={TOOL_ID}")).text
    assert 'value="search_handbook"' in edit[edit.index("<dialog") :]
    typed = {"tool_name": "look", "default_top_k": "20", "default_min_score": ""}
    assert (await reader.post(f"{AGENT}/tools/{TOOL_ID}", data=typed)).status_code == 303
    sent = {"tool_name": "look", "default_top_k": 20, "default_min_score": None}
    assert api.bodies[f"PATCH /agents/{AGENT_ID}/knowledge-base-tools/{TOOL_ID}"] == sent
    assert (await reader.post(f"{AGENT}/tools/{TOOL_ID}/remove")).status_code == 303
    assert f"DELETE /agents/{AGENT_ID}/tools/{TOOL_ID}" in api.calls


async def test_a_broken_tool_says_which_knowledge_base_is_gone_and_can_only_be_removed(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    for answer in (api.answers["GET /agents"]["agents"][0], api.answers[f"GET /agents/{AGENT_ID}"]):
        answer["tools"][0] |= {"is_broken": True, "kb_name": "Old <b>handbook"}
    page = (await reader.get(AGENT)).text
    assert "Knowledge base not found" in page
    assert "<bdi>Old &lt;b&gt;handbook</bdi> was deleted." in page
    assert "Remove" in page
    assert f"edit={TOOL_ID}" not in page
    assert '<span class="badge bad">' in (await reader.get(AGENTS)).text


async def test_lists_and_tools_have_an_empty_state(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["GET /agents"] |= {"agents": [], "total_count": 0}
    assert "There is no agent yet." in (await reader.get(AGENTS)).text
    assert "Show all" in (await reader.get(f"{AGENTS}?page=2")).text
    api.answers[f"GET /agents/{AGENT_ID}"]["tools"] = []
    assert "cites nothing" in (await reader.get(AGENT)).text
    api.answers[AVAILABLE]["knowledge_bases"] = []
    assert "Create one" in (await reader.get(f"{AGENT}?add=list")).text


@pytest.mark.parametrize("page", [AGENTS, f"{AGENTS}/new", AGENT, f"{AGENT}?edit={TOOL_ID}", f"{AGENT}/delete"])
async def test_a_key_that_may_not_write_sees_why(stranger: httpx.AsyncClient, api: FakeApi, page: str) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    shown = await stranger.get(page)
    assert (shown.status_code, "lacks the scope write." in shown.text) == (200, True)


async def test_an_agent_is_deleted_after_a_question(reader: httpx.AsyncClient, api: FakeApi) -> None:
    assert "has answered 1 question" in (await reader.get(f"{AGENT}/delete")).text
    assert (await reader.post(f"{AGENT}/delete")).headers["location"] == f"{AGENTS}?done=deleted"
    assert f"DELETE /agents/{AGENT_ID}" in api.calls


@pytest.mark.parametrize(
    ("address", "hidden"),
    [(AGENT, {"etag": "7\nX-Injected: 1"}), (AGENTS, {"idempotency_key": "ä"})],
)
async def test_a_hidden_field_that_was_changed_on_its_way_is_refused_and_nothing_is_sent(
    reader: httpx.AsyncClient, api: FakeApi, address: str, hidden: dict[str, str]
) -> None:
    refused = await reader.post(address, data={"name": "Mine", "instructions": "Do."} | hidden)
    assert (refused.status_code, "Reload the page" in refused.text) == (422, True)
    assert not any(call.startswith(("PUT ", "POST /agents")) for call in api.calls)
