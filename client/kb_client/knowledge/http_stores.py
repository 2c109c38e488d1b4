"""Stores in this system, over HTTP. Their client stays open when they are closed, unless they have made it."""

from contextlib import suppress
from typing import Any

from kb_client.knowledge.stores import KnowledgeStores, MissingNode, PieceFilter
from kb_client.problems import EntryExistsError, NotFoundError, UnknownNodeError
from kb_client.sync_client.client import Client
from kb_contracts.api.knowledge_entries import EntryView
from kb_contracts.api.knowledge_graph import NeighbourhoodView, NodeView, ReachedEdge
from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.entry_fields import DEFAULT_INFO_TYPE, first_line
from kb_contracts.knowledge.graph import PIECE_ID_PROPERTY, GraphEdge, GraphNode
from kb_contracts.knowledge.merging import merge_relations
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece


class HttpMetadataStore:
    def __init__(self, client: Client, *, owns_client: bool = False) -> None:
        self._client = client
        self._owns_client = owns_client

    def find(self, entity_id: str) -> Entity | None:
        with suppress(NotFoundError):
            view = self._client.entities.get(entity_id)
            return Entity(entity_id=view.entity_id, entity_type=view.entity_type, properties=view.properties)
        return None

    def put(self, entity: Entity) -> None:
        self._client.entities.put(entity.entity_id, entity_type=entity.entity_type, properties=entity.properties)

    def delete(self, entity_id: str) -> None:
        with suppress(NotFoundError):
            self._client.entities.delete(entity_id)

    def close(self) -> None:
        """Close the client if the store owns it."""
        if self._owns_client:
            self._client.close()


class HttpPieceStore:
    """Pieces as entries, which are found by meaning and by words as soon as they are indexed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def find(self, piece_id: str) -> KnowledgePiece | None:
        with suppress(NotFoundError):
            return _to_piece(self._client.knowledge_entries.get(piece_id))
        return None

    def put(self, piece: KnowledgePiece) -> None:
        """Create a piece, or replace it."""
        title = piece.title or first_line(piece.content)
        entries = self._client.knowledge_entries
        try:
            entries.create(
                entry_id=piece.piece_id,
                title=title,
                content=piece.content,
                tags=piece.tags,
                type=piece.type,
                knowledge_type=piece.knowledge_type,
                info_type=piece.info_type,
                entity_id=piece.entity_id,
                embedding_text=piece.embedding_text,
            )
        except EntryExistsError:
            entries.update(
                piece.piece_id,
                title=title,
                content=piece.content,
                tags=piece.tags,
                type=piece.type,
                knowledge_type=piece.knowledge_type,
                info_type=piece.info_type,
                entity_id=piece.entity_id,
                embedding_text=piece.embedding_text,
            )

    def delete(self, piece_id: str) -> None:
        with suppress(NotFoundError):
            self._client.knowledge_entries.delete(piece_id)

    def search(self, query: str, *, top_k: int, among: PieceFilter) -> list[RetrievedPiece]:
        conditions = {"knowledge_types": among.knowledge_types, "info_types": among.info_types, "tags": among.tags}
        lists: dict[str, Any] = {name: list(values) for name, values in conditions.items() if values is not None}
        if not all(lists.values()):
            # No piece has a kind, a section or a tag out of none.
            return []
        return self._client.knowledge.retrieve(query, entity_id=among.entity_id, top_k=top_k, depth=0, **lists).pieces

    def close(self) -> None:
        """Do nothing: the client stays open."""


class HttpGraphStore:
    def __init__(self, client: Client) -> None:
        self._client = client

    def find_node(self, node_id: str) -> GraphNode | None:
        with suppress(NotFoundError):
            view = self._client.graph.get_node(node_id)
            return GraphNode(
                node_id=view.node_id, node_type=view.node_type, label=view.label, properties=view.properties
            )
        return None

    def put_node(self, node: GraphNode) -> None:
        self._client.graph.put_node(
            node.node_id, node_type=node.node_type, label=node.label, properties=node.properties
        )

    def delete_node(self, node_id: str) -> None:
        with suppress(NotFoundError):
            self._client.graph.delete_node(node_id)

    def put_edge(self, edge: GraphEdge) -> None:
        try:
            self._client.graph.put_edge(
                source_id=edge.source_id,
                edge_type=edge.edge_type,
                target_id=edge.target_id,
                properties=edge.properties,
            )
        except UnknownNodeError as error:
            raise MissingNode(error.detail) from error

    def find_relations(self, node_id: str, *, depth: int) -> list[GraphRelation]:
        if depth == 0:
            return []
        with suppress(NotFoundError):
            return _to_relations(self._client.graph.neighbourhood(node_id, depth=depth))
        return []

    def close(self) -> None:
        """Do nothing: the client stays open."""


def open_http_stores(client: Client | None = None) -> KnowledgeStores:
    """Return the stores of an organization.

    Args:
        client: client to use. Without one, a client with the settings of the environment is made, and closed with
            the stores.
    """
    opened = client or Client()
    metadata_store = HttpMetadataStore(opened, owns_client=client is None)
    return KnowledgeStores(metadata_store, HttpPieceStore(opened), HttpGraphStore(opened))


def _to_piece(entry: EntryView) -> KnowledgePiece | None:
    if entry.knowledge_type is None:
        return None
    return KnowledgePiece(
        piece_id=entry.entry_id,
        content=entry.content,
        knowledge_type=entry.knowledge_type,
        info_type=entry.info_type or DEFAULT_INFO_TYPE,
        entity_id=entry.entity_id,
        title=None if entry.title == first_line(entry.content) else entry.title,
        type=entry.type,
        tags=entry.tags,
        embedding_text=entry.embedding_text,
    )


def _to_relations(found: NeighbourhoodView) -> list[GraphRelation]:
    nodes = {node.node_id: node for node in found.nodes}
    return merge_relations(_to_relation(edge, nodes[edge.target_id]) for edge in found.edges)


def _to_relation(edge: ReachedEdge, target: NodeView) -> GraphRelation:
    piece_id = edge.properties.get(PIECE_ID_PROPERTY)
    return GraphRelation(
        relation_type=edge.edge_type,
        target_node_id=target.node_id,
        target_type=target.node_type,
        label=target.label,
        depth=edge.depth,
        piece_id=piece_id if isinstance(piece_id, str) else None,
        properties=edge.properties,
    )
