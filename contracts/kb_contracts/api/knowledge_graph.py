"""The graph of an organization: nodes, directed edges, and what is reached from a node."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, StrictModel, example
from kb_contracts.knowledge.entities import EntityType
from kb_contracts.knowledge.graph import MAX_DEPTH, EdgeType, NodeId, NodeLabel
from kb_contracts.knowledge.properties import Properties

TraversalDepth = Annotated[int, Field(ge=1, le=MAX_DEPTH)]

_WRITTEN: Final = {
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
}
_NODE: Final = {
    "node_id": "technique:les",
    "node_type": "technique",
    "label": "LES simulation expert",
    "properties": {},
    **_WRITTEN,
}
_EDGE: Final = {
    "edge_id": "5c1f0e9d8b7a69584736251f",
    "source_id": "user:alice",
    "edge_type": "SPECIALIZES_IN",
    "target_id": "technique:les",
    "properties": {"piece_id": "les-rans-init"},
    **_WRITTEN,
}


class PutNode(StrictModel):
    """A node as it is to be. Properties that are left out are removed."""

    model_config = example({"node_type": "technique", "label": "LES simulation expert"})

    node_type: EntityType = Field(description="Kind of node, such as `technique`.")
    label: NodeLabel | None = Field(default=None, description="Description for people and models.")
    properties: Properties = Field(default_factory=dict, description="Flat map of the properties.")


class NodeView(BaseModel):
    model_config = example(_NODE)

    node_id: str = Field(description="Id of the node. The node of an entity has the id of the entity.")
    node_type: str
    label: str | None
    properties: Properties
    created_at: datetime
    updated_at: datetime = Field(description="Time of the last change; equal values change nothing.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class NodeList(BaseModel):
    model_config = example({"nodes": [_NODE], "total_count": 1, "next_cursor": None})

    nodes: list[NodeView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class PutEdge(StrictModel):
    """A directed edge. There is one for each source, type and target."""

    model_config = example(
        {
            "source_id": "user:alice",
            "edge_type": "SPECIALIZES_IN",
            "target_id": "technique:les",
            "properties": {"piece_id": "les-rans-init"},
        }
    )

    source_id: NodeId = Field(description="Node that the edge begins at. It has to exist.")
    edge_type: EdgeType = Field(description="Kind of relation, such as `SPECIALIZES_IN`.")
    target_id: NodeId = Field(description="Node that the edge leads to. It has to exist.")
    properties: Properties = Field(
        default_factory=dict, description="Flat map of the properties. `piece_id` links the edge to a piece."
    )


class EdgeView(BaseModel):
    model_config = example(_EDGE)

    edge_id: str = Field(description="Id, which is made of source, type and target.")
    source_id: str
    edge_type: str
    target_id: str
    properties: Properties
    created_at: datetime
    updated_at: datetime = Field(description="Time of the last change; equal values change nothing.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class EdgeList(BaseModel):
    model_config = example({"edges": [_EDGE], "total_count": 1, "next_cursor": None})

    edges: list[EdgeView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class ReachedEdge(EdgeView):
    model_config = example({**_EDGE, "depth": 1})

    depth: int = Field(description="Number of edges from the entity to the target of this one.")


class NeighbourhoodView(BaseModel):
    model_config = example({"nodes": [_NODE], "edges": [{**_EDGE, "depth": 1}], "truncated": False})

    nodes: list[NodeView] = Field(description="Nodes by their distance, that of the entity first.")
    edges: list[ReachedEdge] = Field(description="Edges between them, by depth, type and target.")
    truncated: bool = Field(description="Whether more is within the depth than the 200 nodes and 1,000 edges shown.")
