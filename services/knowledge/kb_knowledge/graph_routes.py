from typing import Annotated, Final

from fastapi import Query

from kb_contracts.api.knowledge_graph import (
    EdgeList,
    EdgeView,
    NeighbourhoodView,
    NodeList,
    NodeView,
    PutEdge,
    PutNode,
    ReachedEdge,
    TraversalDepth,
)
from kb_contracts.api.model import MessageResponse
from kb_contracts.knowledge.graph import GraphEdge, GraphNode, NodeId
from kb_knowledge.content_check import refuse_sensitive, refuse_sensitive_properties
from kb_knowledge.dependencies import Cursors, Database, Reader, Settings, Writer
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import commit_change
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.problems import responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo import knowledge_graph
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.knowledge_graph import EdgeKey, EdgeRecord, NodeKey, NodeRecord, edge_id_of

_NODES: Final = "graph nodes"
_EDGES: Final = "graph edges"

router = organization_router("graph")

NodeParameter = Annotated[str | None, Query(min_length=1, max_length=200)]


@router.put(
    "/graph/nodes/{node_id}",
    operation_id="graph.put_node",
    summary="Create or replace a node",
    responses=responses("quota-exceeded", "sensitive-content"),
)
async def put_node(
    database: Database, settings: Settings, caller: Writer, node_id: NodeId, *, body: PutNode
) -> NodeView:
    """Store a node. The node of an entity has the id of the entity. Its edges stay."""
    refuse_sensitive_properties(body.properties)
    refuse_sensitive(body.label or "", field="label")
    if not await knowledge_graph.find_nodes(database, caller.organization_id, node_ids=[node_id]):
        await require_quota(
            lambda: knowledge_graph.count_nodes(database, caller.organization_id),
            settings.max_graph_nodes,
            things="nodes",
            setting="KB_MAX_GRAPH_NODES",
        )
    node = GraphNode(node_id=node_id, node_type=body.node_type, label=body.label, properties=body.properties)
    await knowledge_graph.put_nodes(database, caller.organization_id, [node], by=caller.key_id)
    return _node_view(await knowledge_graph.get_node(database, NodeKey(caller.organization_id, node_id)))


@router.get("/graph/nodes", operation_id="graph.list_nodes", summary="List nodes")
async def list_nodes(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    node_type: Annotated[str | None, Query(min_length=1, max_length=40, description="Only nodes of this type.")] = None,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
) -> NodeList:
    """List nodes by their ids."""
    scope = CursorScope(caller.organization_id, _NODES, {"node_type": node_type})
    found, total_count = await knowledge_graph.find_page_of_nodes(
        database, caller.organization_id, node_type=node_type, after=cursors.read(scope, cursor), limit=limit
    )
    return NodeList(
        nodes=list(map(_node_view, found)),
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda node: node.node_id),
    )


@router.get("/graph/nodes/{node_id}", operation_id="graph.get_node", summary="Get a node")
async def get_node(database: Database, caller: Reader, node_id: str) -> NodeView:
    return _node_view(await knowledge_graph.get_node(database, NodeKey(caller.organization_id, node_id)))


@router.delete("/graph/nodes/{node_id}", operation_id="graph.delete_node", summary="Delete a node")
async def delete_node(database: Database, caller: Writer, node_id: str) -> MessageResponse:
    """Delete a node with the edges from it and to it."""
    key = NodeKey(caller.organization_id, node_id)
    await commit_change(database, lambda session: knowledge_graph.delete_node(database, session, key))
    return MessageResponse(message="Node deleted successfully")


@router.put(
    "/graph/edges",
    operation_id="graph.put_edge",
    summary="Create or replace an edge",
    responses=responses("quota-exceeded", "sensitive-content", "unknown-node"),
)
async def put_edge(database: Database, settings: Settings, caller: Writer, body: PutEdge) -> EdgeView:
    """Store an edge between two nodes; of one with the same source, type and target replace the properties."""
    refuse_sensitive_properties(body.properties)
    edge = GraphEdge(
        source_id=body.source_id, edge_type=body.edge_type, target_id=body.target_id, properties=body.properties
    )
    key = EdgeKey(caller.organization_id, edge_id_of(edge))
    if await knowledge_graph.find_edge(database, key) is None:
        await require_quota(
            lambda: knowledge_graph.count_edges(database, caller.organization_id),
            settings.max_graph_edges,
            things="edges",
            setting="KB_MAX_GRAPH_EDGES",
        )

    async def store(session: MongoSession) -> EdgeRecord:
        outcome = await knowledge_graph.put_edges_in(
            database, session, caller.organization_id, edges=[edge], by=caller.key_id
        )
        if missing := outcome.missing.get(key.edge_id):
            raise _unknown_nodes(sorted(missing))
        if (stored := await knowledge_graph.find_edge(database, key, session=session)) is None:
            raise NotFound("edge")
        return stored

    return _edge_view(await commit_change(database, store, answer=_edge_view))


def _unknown_nodes(node_ids: list[str]) -> RequestError:
    return RequestError(
        422,
        "unknown-node",
        "Both nodes of an edge have to exist: create those of `node_ids` with PUT /graph/nodes/{node_id} first.",
        extra={"node_ids": node_ids},
    )


@router.get("/graph/edges", operation_id="graph.list_edges", summary="List edges")
async def list_edges(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    source_id: Annotated[NodeParameter, Query(description="Only edges from this node.")] = None,
    target_id: Annotated[NodeParameter, Query(description="Only edges to this node.")] = None,
    edge_type: Annotated[str | None, Query(min_length=1, max_length=64, description="Only edges of this type.")] = None,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
) -> EdgeList:
    """List edges by their ids."""
    filters = {"source_id": source_id, "target_id": target_id, "edge_type": edge_type}
    scope = CursorScope(caller.organization_id, _EDGES, filters)
    found, total_count = await knowledge_graph.find_page_of_edges(
        database, caller.organization_id, **filters, after=cursors.read(scope, cursor), limit=limit
    )
    return EdgeList(
        edges=list(map(_edge_view, found)),
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda edge: edge.edge_id),
    )


@router.get("/graph/edges/{edge_id}", operation_id="graph.get_edge", summary="Get an edge")
async def get_edge(database: Database, caller: Reader, edge_id: str) -> EdgeView:
    return _edge_view(await knowledge_graph.get_edge(database, EdgeKey(caller.organization_id, edge_id)))


@router.delete("/graph/edges/{edge_id}", operation_id="graph.delete_edge", summary="Delete an edge")
async def delete_edge(database: Database, caller: Writer, edge_id: str) -> MessageResponse:
    """Delete an edge. Its nodes stay."""
    await knowledge_graph.delete_edge(database, EdgeKey(caller.organization_id, edge_id))
    return MessageResponse(message="Edge deleted successfully")


@router.get(
    "/graph/neighbourhood",
    operation_id="graph.neighbourhood",
    summary="Get what is reached from an entity",
    responses=responses("graph-too-large"),
)
async def neighbourhood(
    database: Database,
    caller: Reader,
    entity_id: Annotated[str, Query(min_length=1, max_length=200, description="Entity, or another node.")],
    *,
    depth: Annotated[TraversalDepth, Query(description="Greatest number of edges from the entity.")] = 1,
) -> NeighbourhoodView:
    """Return the nodes and edges that are reached from an entity along the direction of edges, breadth first.

    Without a node of this id, both lists are empty.
    """
    found = await knowledge_graph.find_neighbourhood(database, NodeKey(caller.organization_id, entity_id), depth=depth)
    return NeighbourhoodView(
        nodes=list(map(_node_view, found.nodes)),
        edges=[ReachedEdge(**dict(_edge_view(edge)), depth=hops) for edge, hops in found.edges],
        truncated=found.truncated,
    )


def _node_view(node: NodeRecord) -> NodeView:
    return NodeView.model_validate({name: getattr(node, name) for name in NodeView.model_fields})


def _edge_view(edge: EdgeRecord) -> EdgeView:
    return EdgeView.model_validate({name: getattr(edge, name) for name in EdgeView.model_fields})
