"""Checks of entities, the graph and imports."""

from typing import Any

import pytest

from kb_client.problems import NotFoundError
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization

ENTITY: dict[str, Any] = {"entity_type": "user", "properties": {"team": "aero", "level": 3}}
NODE: dict[str, Any] = {"node_type": "technique", "label": "LES", "properties": {"since": 2020}}


async def put_entity(organization: StockedOrganization, entity_id: str) -> Row:
    await organization.client.entities.put(entity_id, **ENTITY)
    return await organization.row("entities", entity_id=entity_id)


async def put_edge(organization: StockedOrganization, source_id: str, target_id: str) -> Row:
    for node_id in (source_id, target_id):
        await organization.client.graph.put_node(node_id, **NODE)
    edge = await organization.client.graph.put_edge(
        source_id=source_id, edge_type="USES", target_id=target_id, properties={"piece_id": "les"}
    )
    return await organization.row("graph_edges", edge_id=edge.edge_id)


@checks("entities.put")
async def check_put_entity(organization: StockedOrganization) -> None:
    answer = await organization.client.entities.put("user:put", **ENTITY)
    row = await organization.row("entities", entity_id="user:put")
    assert_holds(row, updated_by=organization.key_id, **ENTITY)
    assert_shows(answer, row)


@checks("entities.get")
async def check_get_entity(organization: StockedOrganization) -> None:
    row = await put_entity(organization, "user:get")
    assert_shows(await organization.client.entities.get("user:get"), row)


@checks("entities.list")
async def check_list_entities(organization: StockedOrganization) -> None:
    await organization.client.entities.put("lister:one", entity_type="lister")
    row = await organization.row("entities", entity_id="lister:one")
    page = await organization.client.entities.list(entity_type="lister")
    [entity] = page.entities
    assert page.total_count == 1
    assert_shows(entity, row)


@checks("entities.delete")
async def check_delete_entity(organization: StockedOrganization) -> None:
    await put_entity(organization, "user:delete")
    await organization.client.entities.delete("user:delete")
    assert await organization.rows("entities", entity_id="user:delete") == []
    with pytest.raises(NotFoundError):
        await organization.client.entities.get("user:delete")


@checks("graph.put_node")
async def check_put_node(organization: StockedOrganization) -> None:
    answer = await organization.client.graph.put_node("technique:put", **NODE)
    row = await organization.row("graph_nodes", node_id="technique:put")
    assert_holds(row, updated_by=organization.key_id, **NODE)
    assert_shows(answer, row)


@checks("graph.get_node")
async def check_get_node(organization: StockedOrganization) -> None:
    await organization.client.graph.put_node("technique:get", **NODE)
    answer = await organization.client.graph.get_node("technique:get")
    assert_shows(answer, await organization.row("graph_nodes", node_id="technique:get"))


@checks("graph.list_nodes")
async def check_list_nodes(organization: StockedOrganization) -> None:
    await organization.client.graph.put_node("listed:one", node_type="listed")
    [node] = (await organization.client.graph.list_nodes(node_type="listed")).nodes
    assert_shows(node, await organization.row("graph_nodes", node_id="listed:one"))


@checks("graph.put_edge")
async def check_put_edge(organization: StockedOrganization) -> None:
    row = await put_edge(organization, "put:a", "put:b")
    assert_holds(row, source_id="put:a", edge_type="USES", target_id="put:b", properties={"piece_id": "les"})


@checks("graph.get_edge")
async def check_get_edge(organization: StockedOrganization) -> None:
    row = await put_edge(organization, "get:a", "get:b")
    assert_shows(await organization.client.graph.get_edge(row["edge_id"]), row)


@checks("graph.list_edges")
async def check_list_edges(organization: StockedOrganization) -> None:
    row = await put_edge(organization, "list:a", "list:b")
    page = await organization.client.graph.list_edges(source_id="list:a")
    [edge] = page.edges
    assert page.total_count == 1
    assert_shows(edge, row)


@checks("graph.neighbourhood")
async def check_neighbourhood(organization: StockedOrganization) -> None:
    row = await put_edge(organization, "near:a", "near:b")
    await put_edge(organization, "near:b", "near:c")
    answer = await organization.client.graph.neighbourhood("near:a", depth=1)
    assert [node.node_id for node in answer.nodes] == ["near:a", "near:b"]
    [edge] = answer.edges
    assert_shows(edge, {**row, "depth": 1})
    assert not answer.truncated


@checks("graph.delete_edge")
async def check_delete_edge(organization: StockedOrganization) -> None:
    row = await put_edge(organization, "cut:a", "cut:b")
    await organization.client.graph.delete_edge(row["edge_id"])
    assert await organization.rows("graph_edges", source_id="cut:a") == []
    assert len(await organization.rows("graph_nodes", node_id="cut:a")) == 1


@checks("graph.delete_node")
async def check_delete_node(organization: StockedOrganization) -> None:
    await put_edge(organization, "gone:a", "gone:b")
    await organization.client.graph.delete_node("gone:b")
    assert await organization.rows("graph_nodes", node_id="gone:b") == []
    assert await organization.rows("graph_edges", source_id="gone:a") == []


@checks("knowledge.import_document")
async def check_import(organization: StockedOrganization) -> None:
    report = await organization.client.knowledge.import_document(
        metadata={"user:imported": ENTITY},
        pieces=[
            {"piece_id": "imported", "content": "Start from RANS.", "knowledge_type": "procedure"},
            {"piece_id": "empty", "content": "", "knowledge_type": "fact"},
        ],
        graph={"nodes": [{"node_id": "user:imported", "node_type": "user"}], "edges": []},
    )
    assert report.loaded.model_dump() == {"metadata": 1, "pieces": 1, "nodes": 1, "edges": 0}
    assert [(each.section, each.index, each.id) for each in report.skipped] == [("pieces", 1, "empty")]
    assert_holds(await organization.row("entities", entity_id="user:imported"), **ENTITY)
    assert_holds(await organization.row("graph_nodes", node_id="user:imported"), node_type="user", label=None)
    await organization.until_row("knowledge_entries", entry_id="imported", embedding_status="ready")
