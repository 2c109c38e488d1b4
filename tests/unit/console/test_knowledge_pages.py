"""Imports, proposals, entities, the graph, sources and MCP servers."""

import json
import math
from itertools import combinations
from typing import Any

import httpx
import pytest

from kb_console.errors import UnusableForm
from kb_console.knowledge.graph_picture import draw_graph
from kb_console.knowledge.property_lines import format_properties, parse_properties
from tests.unit.console.fake_api import FakeApi
from tests.unit.console.knowledge_answers import CHECK_IN_ID, ENTITY_ID, RUN_ID, SERVER_ID, SOURCE_ID

KNOWLEDGE = "/console/orgs/acme/knowledge"
SOURCE = f"{KNOWLEDGE}/sources/{SOURCE_ID}"
DOCUMENT = {"pieces": [{"piece_id": "a", "content": "A.", "knowledge_type": "fact"}]}


async def test_an_import_is_tried_first_and_loaded_then(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.answers["POST /knowledge:import"]["dry_run"] = True
    files = {"file": ("knowledge.json", json.dumps(DOCUMENT).encode())}
    tried = await reader.post(f"{KNOWLEDGE}/import/uploads", files=files)
    assert api.queries["POST /knowledge:import"]["dry_run"] == "true"
    assert "content contains a credential (password) in line 1" in tried.text
    assert 'name="confirmed"' in tried.text
    assert "&#34;piece_id&#34;: &#34;a&#34;" in tried.text, "the second form has the document"
    api.answers["POST /knowledge:import"]["dry_run"] = False
    form = {"document": json.dumps(DOCUMENT), "confirmed": "yes"}
    loaded = await reader.post(f"{KNOWLEDGE}/import/uploads", data=form)
    assert api.queries["POST /knowledge:import"]["dry_run"] == "false"
    assert api.bodies["POST /knowledge:import"] == DOCUMENT
    assert "Loaded 1" in loaded.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "paste a document"),
        ("{", "mistake in line 1"),
        ("[]", "should be an object"),
        ('{"a": 1}', "unknown parts: a"),
    ],
)
async def test_what_is_no_document_is_not_sent(
    reader: httpx.AsyncClient, api: FakeApi, text: str, message: str
) -> None:
    shown = await reader.post(f"{KNOWLEDGE}/import/uploads", data={"document": text})
    assert (shown.status_code, message in shown.text) == (422, True)
    assert "POST /knowledge:import" not in api.calls


async def test_single_items_of_a_proposal_can_be_loaded(reader: httpx.AsyncClient, api: FakeApi) -> None:
    check_in: Any = api.answers[f"GET /check-ins/{CHECK_IN_ID}"]
    check_in["proposal"] |= {
        "pieces": [{"content": "One.", "knowledge_type": "fact"}, {"content": "Two.", "knowledge_type": "note"}],
        "graph": {"nodes": [{"node_id": "user:alice", "node_type": "user"}], "edges": []},
    }
    page = f"{KNOWLEDGE}/check-ins/{CHECK_IN_ID}"
    assert "<bdi>One.</bdi>" in (await reader.get(page)).text
    assert (await reader.post(f"{page}/select")).status_code == 422
    await reader.post(f"{page}/select", data={"item": ["pieces/1", "nodes/0"]})
    assert api.bodies["POST /knowledge:import"] == {
        "pieces": [{"content": "Two.", "knowledge_type": "note"}],
        "graph": {"nodes": [{"node_id": "user:alice", "node_type": "user"}]},
    }
    assert (await reader.post(f"{page}/apply")).headers["location"] == f"{page}?done=applied"


PROPERTIES: dict[str, Any] = {
    "team": "aero: one",
    "age": 30,
    "is_new": True,
    "number": "30",
    "lines": "a\nb",
    "blank": " a ",
    "since": {"$date": "2026-01-31T00:00:00Z"},
    "list": "[1]",
}


def test_properties_stay_what_they_are_when_they_are_edited_as_lines() -> None:
    assert parse_properties(format_properties(PROPERTIES)) == PROPERTIES
    assert parse_properties("\n a : b \n") == {"a": "b"}
    for text in ("a", ": b", "a: 1\na: 2"):
        with pytest.raises(UnusableForm):
            parse_properties(text)


async def test_a_new_entity_never_replaces_one(reader: httpx.AsyncClient, api: FakeApi) -> None:
    form = {"entity_id": ENTITY_ID, "entity_type": "user", "properties": "team: sales", "is_new": "yes"}
    refused = await reader.post(f"{KNOWLEDGE}/entities", data=form)
    assert (refused.status_code, f"PUT /entities/{ENTITY_ID}" in api.calls) == (422, False)
    assert "team: sales" in refused.text
    del form["is_new"]
    assert (await reader.post(f"{KNOWLEDGE}/entities", data=form)).status_code == 303
    assert api.bodies[f"PUT /entities/{ENTITY_ID}"]["properties"] == {"team": "sales"}


def test_a_picture_has_a_middle_rings_and_no_two_nodes_in_one_place() -> None:
    leaves = [f"n{number}" for number in range(20)]
    nodes = ["hub", *leaves, "far", "alone"]
    edges = [("hub", leaf) for leaf in leaves] + [("n3", "far"), ("hub", "missing"), ("far", "far")]
    picture = draw_graph(nodes, edges)
    places = {node.node_id: (node.x, node.y) for node in picture.nodes}
    assert len(set(places.values())) == len(nodes)
    assert len(picture.edges) == 21
    assert all(0 < x < picture.width and 0 < y < picture.height for x, y in places.values())
    assert min(math.dist(one, other) for one, other in combinations(places.values(), 2)) > 60
    assert {round(math.dist(places["hub"], places[leaf]), -1) for leaf in leaves} == {300}, "all on one ring"
    assert places["far"] != places["alone"]
    [to_far] = [each for each in picture.edges if (each.x1, each.y1) == places["n3"]]
    tip = tuple(int(each) for each in to_far.tip.split()[0].split(","))
    assert round(math.dist(tip, places["far"]), -1) == 10, "the arrow points to the node"
    assert draw_graph([], []).nodes == []


async def test_a_source_keeps_its_file_unless_another_one_is_sent(reader: httpx.AsyncClient, api: FakeApi) -> None:
    form = {"kind": "file_upload", "label": "Travel"}
    assert (await reader.post(f"{KNOWLEDGE}/sources/uploads", data=form)).status_code == 422
    made = await reader.post(f"{KNOWLEDGE}/sources/uploads", data=form, files={"file": ("C:\\travel.pdf", b"x")})
    assert made.headers["location"] == f"{SOURCE}?done=created"
    assert api.queries["POST /knowledge-sources/files"]["filename"] == "travel.pdf"
    config = {"filename": "travel.pdf", "file_id": "65f1c2a3b4d5e6f708192a73"}
    sent = api.bodies["POST /knowledge-sources"]
    assert (sent["config"], sent["enabled"], sent["cron_expression"]) == (config, False, None)
    await reader.post(f"{SOURCE}/uploads", data={**form, **config, "enabled": "on"})
    assert api.bodies[f"PATCH /knowledge-sources/{SOURCE_ID}"]["config"] == config


async def test_a_refused_configuration_is_shown_beside_its_field(reader: httpx.AsyncClient, api: FakeApi) -> None:
    fields = [{"field": "config.url", "message": "must be a public address"}]
    api.refuse("POST /knowledge-sources", 422, "validation-error", fields=fields)
    form = {"kind": "url_crawl", "label": "Site", "url": "http://10.0.0.1/", "depth": "2", "prefixes": "/a\r\n/b"}
    shown = await reader.post(f"{KNOWLEDGE}/sources/uploads", data=form)
    assert '<small class="problem" id="url-problem">must be a public address' in shown.text
    assert api.bodies["POST /knowledge-sources"]["config"]["prefixes"] == ["/a", "/b"]


async def test_a_run_is_followed_until_it_ends(reader: httpx.AsyncClient, api: FakeApi) -> None:
    page = (await reader.get(SOURCE)).text
    assert 'id="poll"' not in page
    assert page.count('datetime="2026-02-0') == 3, "the next three times"
    api.answers[f"GET /knowledge-sources/{SOURCE_ID}/runs"]["runs"][0] |= {"status": "running", "warnings": 2}
    part = (await reader.get(SOURCE, headers={"HX-Request-Type": "partial"})).text
    assert 'id="poll"' in part
    assert f"{SOURCE}/runs/{RUN_ID}/cancel" in part
    assert "2 items with a warning about the text" in part
    assert 'disabled title="Your API key lacks the scope admin."' in part


async def test_headers_of_a_server_stay_unless_others_are_typed(reader: httpx.AsyncClient, api: FakeApi) -> None:
    server, change = f"{KNOWLEDGE}/mcp-servers/{SERVER_ID}", f"PATCH /mcp-servers/{SERVER_ID}"
    form = {"label": "Wiki", "url": "https://wiki.example.com/mcp"}
    await reader.post(server, data=form)
    assert api.bodies[change] == form
    await reader.post(server, data={**form, "headers": "Authorization: Bearer x: y\r\n"})
    assert api.bodies[change]["headers"] == {"Authorization": "Bearer x: y"}
    await reader.post(server, data={**form, "without_headers": "yes"})
    assert api.bodies[change]["headers"] == {}
    refused = await reader.post(server, data={**form, "headers": "secret-without-a-name"})
    assert (refused.status_code, "secret-without" in refused.text) == (422, False)


async def test_empty_lists_say_what_they_are_for(reader: httpx.AsyncClient, api: FakeApi) -> None:
    for call, items, page, words in [
        ("GET /entities", "entities", "entities", "An entity is what knowledge is about"),
        ("GET /knowledge-sources", "sources", "sources", "A source fetches"),
        ("GET /mcp-servers", "mcp_servers", "mcp-servers", "There is no MCP server yet"),
        ("GET /check-ins", "check_ins", "structure", "There is none yet"),
        ("GET /graph/nodes", "nodes", "graph", "The graph has no node yet"),
        ("GET /graph/neighbourhood", "nodes", "graph?entity_id=a", "There is no node"),
    ]:
        api.answers[call] |= {items: [], "total_count": 0}
        assert words in (await reader.get(f"{KNOWLEDGE}/{page}")).text, page
