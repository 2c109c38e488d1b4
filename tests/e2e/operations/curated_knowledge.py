"""Checks of searches of entries, and of what is known about an entity."""

from typing import Final
from uuid import uuid4

from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.metadata import DateValue
from kb_shared.mongo import entities, knowledge_graph
from tests.e2e.operations.comparison import assert_holds
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization

ALICE: Final = "user:alice-of-retrieval"
BOB: Final = "user:bob-of-retrieval"


@checks("knowledge.search")
async def check_search_entries(organization: StockedOrganization) -> None:
    query = f"entries {uuid4().hex}"
    answer = await organization.client.knowledge.search(query, limit=100, types=["note", "rule"], agent_id="agent-1")
    entry_ids = {row["entry_id"] for row in await organization.rows("knowledge_entries")}
    assert {hit.entry_id for hit in answer.hits} <= entry_ids
    row = await organization.until_row("query_log", query=query)
    assert_holds(row, result_count=len(answer.hits), origin="sdk", agent_id="agent-1", mode="hybrid")


@checks("knowledge.retrieve")
async def check_retrieve(organization: StockedOrganization) -> None:
    database, organization_id = organization.database, organization.organization_id
    alice = Entity(entity_id=ALICE, entity_type="user", properties={"team": "aero", "age": 41})
    await entities.put_all(database, organization_id, [alice], by=organization.key_id)
    nodes = [GraphNode(node_id=node_id, node_type="user") for node_id in (ALICE, BOB)]
    await knowledge_graph.put_nodes(database, organization_id, nodes, by=organization.key_id)
    edge = GraphEdge(source_id=ALICE, target_id=BOB, edge_type="KNOWS")
    await knowledge_graph.put_edges(database, organization_id, [edge], by=organization.key_id)
    known = await organization.client.knowledge.retrieve(" ", entity_id=ALICE, depth=2)
    row = await organization.row("entities", entity_id=ALICE)
    assert known.metadata == row["properties"]
    assert not any(isinstance(value, DateValue) for value in known.metadata.values())
    assert [(r.relation_type, r.target_node_id, r.depth) for r in known.graph_context] == [("KNOWS", BOB, 1)]
    assert known.sections["user_profile"].startswith("age: 41\nteam: aero")
    assert (known.pieces, known.spu_charged) == ([], 0)
