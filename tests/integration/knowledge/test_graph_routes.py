from typing import Any

from kb_knowledge.settings import KnowledgeSettings
from tests.integration.knowledge.author import Author
from tests.integration.knowledge.calls import answer, call, problem

ALICE = {"entity_type": "user", "properties": {"team": "aero", "since": {"$date": "2026-01-31T12:00:00Z"}}}


async def put_node(author: Author, node_id: str) -> None:
    await answer(author, "PUT", f"/graph/nodes/{node_id}", json={"node_type": "thing", "label": node_id.upper()})


async def put_edge(author: Author, source: str, target: str, **fields: object) -> dict[str, object]:
    body = {"source_id": source, "edge_type": "USES", "target_id": target, **fields}
    edge: dict[str, object] = await answer(author, "PUT", "/graph/edges", json=body)
    return edge


async def test_an_entity_is_written_read_listed_and_deleted(author: Author) -> None:
    stored = await answer(author, "PUT", "/entities/user:alice", json=ALICE)
    assert stored["properties"] == ALICE["properties"]
    assert await answer(author, "PUT", "/entities/user:alice", json=ALICE) == stored
    assert await answer(author, "GET", "/entities/user:alice") == stored
    record = await answer(author, "PUT", "/entities/global", json={"properties": {"organization": "NASA"}})
    assert record["entity_type"] == "global"
    first = await answer(author, "GET", "/entities", params={"limit": 1})
    assert (first["total_count"], [each["entity_id"] for each in first["entities"]]) == (2, ["global"])
    second = await answer(author, "GET", "/entities", params={"limit": 1, "cursor": first["next_cursor"]})
    assert [each["entity_id"] for each in second["entities"]] == ["user:alice"]
    assert await problem(
        author, "GET", "/entities", params={"cursor": first["next_cursor"], "entity_type": "user"}
    ) == (
        422,
        "validation-error",
    )
    await answer(author, "DELETE", "/entities/user:alice")
    assert await problem(author, "GET", "/entities/user:alice") == (404, "not-found")


async def test_credentials_and_malformed_values_are_refused_and_nothing_is_stored(author: Author) -> None:
    bodies: list[dict[str, Any]] = [{}, {**ALICE, "properties": {"a": [1]}}, {**ALICE, "properties": {"a.b": 1}}]
    for body in bodies:
        assert await problem(author, "PUT", "/entities/user:bob", json=body) == (422, "validation-error")
    assert await problem(author, "PUT", "/entities/bob", json=ALICE) == (422, "validation-error")
    leak = {**ALICE, "properties": {"team": "aero", "password": "Sommer-2026!"}}
    refusal = await call(author, "PUT", "/entities/user:bob", json=leak)
    assert (refusal.status_code, refusal.json()["pattern"], refusal.json()["field"]) == (422, "password", "properties")
    assert "Sommer" not in refusal.text
    leak = {"node_type": "thing", "label": "pwd=Sommer-2026x"}
    assert await problem(author, "PUT", "/graph/nodes/n", json=leak) == (422, "sensitive-content")
    assert (await answer(author, "GET", "/entities"))["total_count"] == 0
    assert (await answer(author, "GET", "/graph/nodes"))["total_count"] == 0


async def test_edges_are_written_between_nodes_and_go_with_them(author: Author) -> None:
    await put_node(author, "a")
    unknown = await call(author, "PUT", "/graph/edges", json={"source_id": "a", "edge_type": "USES", "target_id": "b"})
    assert (unknown.status_code, unknown.json()["type"], unknown.json()["node_ids"]) == (422, "unknown-node", ["b"])
    await put_node(author, "b")
    edge = await put_edge(author, "a", "b", properties={"piece_id": "les"})
    assert await answer(author, "GET", f"/graph/edges/{edge['edge_id']}") == edge
    assert (await put_edge(author, "a", "b"))["edge_id"] == edge["edge_id"]
    other = await put_edge(author, "b", "a")
    listed = await answer(author, "GET", "/graph/edges", params={"source_id": "b"})
    assert listed["edges"] == [other]
    reached = await answer(author, "GET", "/graph/neighbourhood", params={"entity_id": "a", "depth": 2})
    assert [(each["target_id"], each["depth"]) for each in reached["edges"]] == [("b", 1), ("a", 2)]
    assert [node["label"] for node in reached["nodes"]] == ["A", "B"]
    assert await problem(author, "GET", "/graph/neighbourhood", params={"entity_id": "a", "depth": 5}) == (
        422,
        "validation-error",
    )
    await answer(author, "DELETE", "/graph/nodes/b")
    assert (await answer(author, "GET", "/graph/edges"))["total_count"] == 0
    assert await problem(author, "DELETE", f"/graph/edges/{edge['edge_id']}") == (404, "not-found")


async def test_limits_of_an_organization_count_what_is_new(author: Author, settings: KnowledgeSettings) -> None:
    for number in range(settings.max_entities):
        await answer(author, "PUT", f"/entities/user:{number}", json=ALICE)
    assert await problem(author, "PUT", "/entities/user:more", json=ALICE) == (409, "quota-exceeded")
    await answer(author, "PUT", "/entities/user:0", json={**ALICE, "properties": {}})
