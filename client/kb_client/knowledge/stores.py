"""The three stores of curated knowledge. An object with these methods is a store; it needs no base class."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kb_client.errors import KbClientError
from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece


class MissingNode(KbClientError):
    """A node of the edge does not exist. Put both nodes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceFilter:
    """Pieces that a search may find."""

    entity_id: str | None = None
    """Entity: its pieces are found, and those that apply to all entities. Without one, only the latter."""
    knowledge_types: Collection[str] | None = None
    info_types: Collection[str] | None = None
    tags: Collection[str] | None = None
    """Tags of which a piece must have at least one."""

    def admits(self, piece: KnowledgePiece) -> bool:
        """Return whether a piece has one of the kinds, sections and tags, whatever its entity."""
        return (
            (self.knowledge_types is None or piece.knowledge_type in self.knowledge_types)
            and (self.info_types is None or piece.info_type in self.info_types)
            and (self.tags is None or not set(self.tags).isdisjoint(piece.tags))
        )


class MetadataStore(Protocol):
    """Properties of entities. The entity `global` applies to all of them."""

    def find(self, entity_id: str) -> Entity | None:
        """Return an entity, or None if there is no such one."""

    def put(self, entity: Entity) -> None:
        """Create an entity, or replace it."""

    def delete(self, entity_id: str) -> None:
        """Delete an entity. One that does not exist is no error."""

    def close(self) -> None:
        """Give up what the store holds open."""


class PieceStore(Protocol):
    """Pieces of knowledge, which are found by what they say."""

    def find(self, piece_id: str) -> KnowledgePiece | None:
        """Return a piece, or None if there is no such one."""

    def put(self, piece: KnowledgePiece) -> None:
        """Create a piece, or replace it."""

    def delete(self, piece_id: str) -> None:
        """Delete a piece. One that does not exist is no error."""

    def search(self, query: str, *, top_k: int, among: PieceFilter) -> list[RetrievedPiece]:
        """Return up to `top_k` pieces with scores from 0 to 1, by falling score and then by identifier."""

    def close(self) -> None:
        """Give up what the store holds open."""


class GraphStore(Protocol):
    """Nodes and directed edges."""

    def find_node(self, node_id: str) -> GraphNode | None:
        """Return a node, or None if there is no such one."""

    def put_node(self, node: GraphNode) -> None:
        """Create a node, or replace it."""

    def delete_node(self, node_id: str) -> None:
        """Delete a node with its edges. One that does not exist is no error."""

    def put_edge(self, edge: GraphEdge) -> None:
        """Create an edge, or replace the one with the same source, type and target.

        Raises:
            MissingNode: one of its nodes does not exist.
        """

    def find_relations(self, node_id: str, *, depth: int) -> list[GraphRelation]:
        """Return the edges that are reached from a node within `depth` steps, by depth, relation type and target.

        A node that does not exist has none.
        """

    def close(self) -> None:
        """Give up what the store holds open."""


class KnowledgeStores(NamedTuple):
    """The three stores, in the order of the parameters of `KnowledgeBase`."""

    metadata_store: MetadataStore
    piece_store: PieceStore
    graph_store: GraphStore
