"""Entities and the graph of an organization, through the search node."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import MAX_NODES, GraphEdge, GraphNode
from kb_contracts.metadata import DateValue
from kb_shared.errors import NotFound
from kb_shared.mongo import entities, knowledge_graph
from kb_shared.mongo.database import Database, in_transaction
from kb_shared.mongo.entities import EntityKey
from kb_shared.mongo.knowledge_graph import NodeKey, edge_id_of

ORG, OTHER = "acme", "other"


@pytest.fixture
async def database(search_database: Database) -> Database:
    await search_database[knowledge_graph.NAME].create_indexes(knowledge_graph.INDEXES)
    await search_database[knowledge_graph.EDGES].create_indexes(knowledge_graph.EDGE_INDEXES)
    return search_database


def node(node_id: str) -> GraphNode:
    return GraphNode(node_id=node_id, node_type="thing", label=node_id.upper())


def edge(source: str, target: str, edge_type: str = "USES", **properties: Any) -> GraphEdge:
    return GraphEdge(source_id=source, target_id=target, edge_type=edge_type, properties=properties)


async def build(database: Database, edges: Sequence[GraphEdge], *, organization_id: str = ORG) -> None:
    nodes = sorted({node_id for each in edges for node_id in (each.source_id, each.target_id)})
    await knowledge_graph.put_nodes(database, organization_id, [node(each) for each in nodes], by="key")
    assert not (await knowledge_graph.put_edges(database, organization_id, edges, by="key")).missing


async def delete_node(database: Database, node_id: str) -> None:
    key = NodeKey(ORG, node_id)
    await in_transaction(database, lambda session: knowledge_graph.delete_node(database, session, key))


async def reached(database: Database, node_id: str, depth: int, *, organization_id: str = ORG) -> dict[str, int]:
    found = await knowledge_graph.find_neighbourhood(database, NodeKey(organization_id, node_id), depth=depth)
    assert {each.target_id for each, _ in found.edges} <= {each.node_id for each in found.nodes}
    return {f"{each.source_id}{each.target_id}": hops for each, hops in found.edges}


async def test_properties_are_read_as_they_were_written_and_equal_ones_are_not_written_again(
    database: Database,
) -> None:
    when = DateValue(date=datetime(2026, 11, 26, 12, 0, 0, 123456, UTC))
    first = Entity(entity_id="user:alice", entity_type="user", properties={"team": "aero", "n": 1, "since": when})
    written = await entities.put_all(database, ORG, [first], by="key")
    assert written.created == {"user:alice"}
    stored = await entities.get(database, EntityKey(ORG, "user:alice"))
    assert stored.properties == {"team": "aero", "n": 1, "since": when.date.replace(microsecond=123000)}
    assert (await entities.put_all(database, ORG, [first], by="another")).unchanged == {"user:alice"}
    changed = first.model_copy(update={"properties": first.properties | {"n": True}})
    assert (await entities.put_all(database, ORG, [changed], by="another")).changed == {"user:alice"}
    assert (await entities.get(database, EntityKey(ORG, "user:alice"))).properties["n"] is True
    with pytest.raises(NotFound):
        await entities.get(database, EntityKey(OTHER, "user:alice"))


async def test_an_edge_needs_both_of_its_nodes_and_exists_once_for_source_type_and_target(database: Database) -> None:
    await knowledge_graph.put_nodes(database, ORG, [node("a"), node("b")], by="key")
    await knowledge_graph.put_nodes(database, OTHER, [node("c")], by="key")
    lacking, good = edge("a", "c"), edge("a", "b")
    outcome = await knowledge_graph.put_edges(database, ORG, [lacking, good], by="key")
    assert outcome.missing == {edge_id_of(lacking): {"c"}}
    assert outcome.created == {edge_id_of(good)}
    before = await database[knowledge_graph.NAME].find().to_list()
    assert (await knowledge_graph.put_edges(database, ORG, [good], by="key")).unchanged == {edge_id_of(good)}
    assert await database[knowledge_graph.NAME].find().to_list() == before
    again = await knowledge_graph.put_edges(
        database, ORG, [edge("a", "b", piece_id="x"), edge("a", "b", "KNOWS")], by="k"
    )
    assert again.changed == {edge_id_of(good)}
    assert len(again.created) == 1
    assert await knowledge_graph.count_edges(database, ORG) == 2


async def test_a_deleted_node_takes_its_edges_with_it_and_no_edge_can_be_added_meanwhile(database: Database) -> None:
    others = [node(f"n{number}") for number in range(20)]
    await knowledge_graph.put_nodes(database, ORG, [node("hub"), *others], by="key")
    await build(database, [edge("hub", "x")], organization_id=OTHER)

    async def connect(other: str) -> None:
        for each in (edge("hub", other), edge(other, "hub")):
            await knowledge_graph.put_edges(database, ORG, [each], by="key")

    await asyncio.gather(*(connect(each.node_id) for each in others[:10]), delete_node(database, "hub"))
    await connect("n11")
    assert await knowledge_graph.count_edges(database, ORG) == 0
    assert await knowledge_graph.count_edges(database, OTHER) == 1


async def test_a_neighbourhood_has_the_edges_in_their_direction_up_to_the_depth(database: Database) -> None:
    await build(
        database, [edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("d", "e"), edge("e", "f"), edge("x", "a")]
    )
    await build(database, [edge("c", "a"), edge("a", "c")])
    await build(database, [edge("a", "z"), edge("b", "z")], organization_id=OTHER)
    assert await reached(database, "a", 1) == {"ab": 1, "ac": 1}
    assert await reached(database, "a", 2) == {"ab": 1, "ac": 1, "bc": 2, "cd": 2, "ca": 2}
    assert (await reached(database, "a", 4)).get("ef") == 4
    assert await reached(database, "f", 4) == {}
    assert await reached(database, "a", 4, organization_id=OTHER) == {"az": 1}
    assert (await knowledge_graph.find_neighbourhood(database, NodeKey(ORG, "missing"), depth=4)).nodes == []


async def test_a_neighbourhood_has_at_most_200_nodes_the_nearest_ones(database: Database) -> None:
    hub = [edge("hub", f"n{number:03}") for number in range(150)]
    far = [edge("n000", f"far{number:03}") for number in range(100)]
    await build(database, hub + far)
    found = await knowledge_graph.find_neighbourhood(database, NodeKey(ORG, "hub"), depth=2)
    assert len(found.nodes) == MAX_NODES
    assert found.truncated
    assert [each.node_id for each in found.nodes[:2]] == ["hub", "n000"]
    assert sum(hops == 1 for _, hops in found.edges) == 150
