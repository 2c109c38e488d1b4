from collections.abc import Mapping
from typing import Any

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.json_encoding import encode_metadata
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.knowledge_graph import EdgeList, EdgeView, NeighbourhoodView, NodeList, NodeView
from kb_contracts.api.model import MessageResponse


class AsyncGraph(AsyncResource):
    """The graph of the organization: nodes and directed edges."""

    @operation
    def put_node(
        self,
        node_id: str,
        *,
        node_type: str,
        label: str | Unset | None = UNSET,
        properties: Mapping[str, Any] | Unset = UNSET,
    ) -> ApiCall[NodeView]:
        """Create a node, or replace its type, label and properties.

        Args:
            node_id: id of the node; that of an entity for its node.
            node_type: kind of node.
            label: description for people and models.
            properties: strings, numbers, booleans and times.
        """
        return ApiCall(
            "PUT",
            "/graph/nodes/{node_id}",
            NodeView,
            ids={"node_id": node_id},
            body=without_unset({"node_type": node_type, "label": label, "properties": encode_metadata(properties)}),
        )

    @operation
    def get_node(self, node_id: str) -> ApiCall[NodeView]:
        """Return a node."""
        return ApiCall("GET", "/graph/nodes/{node_id}", NodeView, ids={"node_id": node_id})

    @operation
    def delete_node(self, node_id: str) -> ApiCall[MessageResponse]:
        """Delete a node with the edges from it and to it."""
        return ApiCall("DELETE", "/graph/nodes/{node_id}", MessageResponse, ids={"node_id": node_id})

    @listing
    def list_nodes(
        self, *, node_type: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> PageCall[NodeList, NodeView]:
        """Return a page of the nodes, or of those of a type, by their ids."""
        return PageCall(
            "GET",
            "/graph/nodes",
            NodeList,
            query={"node_type": node_type, "cursor": cursor, "limit": limit},
            items=lambda page: page.nodes,
        )

    @operation
    def put_edge(
        self,
        *,
        source_id: str,
        edge_type: str,
        target_id: str,
        properties: Mapping[str, Any] | Unset = UNSET,
    ) -> ApiCall[EdgeView]:
        """Create an edge between two nodes, or replace the properties of the one with this source, type and target.

        Args:
            source_id: node that it begins at.
            edge_type: kind of relation.
            target_id: node that it leads to.
            properties: strings, numbers, booleans and times; `piece_id` links the edge to a piece.
        """
        return ApiCall(
            "PUT",
            "/graph/edges",
            EdgeView,
            body=without_unset(
                {
                    "source_id": source_id,
                    "edge_type": edge_type,
                    "target_id": target_id,
                    "properties": encode_metadata(properties),
                }
            ),
        )

    @operation
    def get_edge(self, edge_id: str) -> ApiCall[EdgeView]:
        """Return an edge."""
        return ApiCall("GET", "/graph/edges/{edge_id}", EdgeView, ids={"edge_id": edge_id})

    @operation
    def delete_edge(self, edge_id: str) -> ApiCall[MessageResponse]:
        """Delete an edge. Its nodes stay."""
        return ApiCall("DELETE", "/graph/edges/{edge_id}", MessageResponse, ids={"edge_id": edge_id})

    @listing
    def list_edges(
        self,
        *,
        source_id: str | None = None,
        target_id: str | None = None,
        edge_type: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> PageCall[EdgeList, EdgeView]:
        """Return a page of the edges that match, by their ids."""
        return PageCall(
            "GET",
            "/graph/edges",
            EdgeList,
            query={
                "source_id": source_id,
                "target_id": target_id,
                "edge_type": edge_type,
                "cursor": cursor,
                "limit": limit,
            },
            items=lambda page: page.edges,
        )

    @operation
    def neighbourhood(self, entity_id: str, *, depth: int | None = None) -> ApiCall[NeighbourhoodView]:
        """Return the nodes and edges that are reached from an entity along the direction of edges.

        Args:
            entity_id: the entity, or another node.
            depth: greatest number of edges, 1 to 4.
        """
        return ApiCall("GET", "/graph/neighbourhood", NeighbourhoodView, query={"entity_id": entity_id, "depth": depth})
