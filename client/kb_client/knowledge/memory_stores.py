"""Stores in memory, for tests and for knowledge that fits into a file."""

import re
from collections.abc import Iterable
from typing import Final

from kb_client.knowledge.stores import KnowledgeStores, MissingNode, PieceFilter
from kb_contracts.knowledge.assemble_retrieval import retrieved
from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import MAX_NODES, GraphEdge, GraphNode
from kb_contracts.knowledge.merging import merge_pieces, merge_relations
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece

_WORD: Final = re.compile(r"\w+")


class MemoryMetadataStore:
    def __init__(self) -> None:
        self._entities: dict[str, Entity] = {}

    def find(self, entity_id: str) -> Entity | None:
        return self._entities.get(entity_id)

    def put(self, entity: Entity) -> None:
        self._entities[entity.entity_id] = entity

    def delete(self, entity_id: str) -> None:
        self._entities.pop(entity_id, None)

    def close(self) -> None:
        """Do nothing: the store can be used after it."""


class MemoryPieceStore:
    """Pieces, which are found by the share of the words of the query that they contain."""

    def __init__(self) -> None:
        self._pieces: dict[str, KnowledgePiece] = {}

    def find(self, piece_id: str) -> KnowledgePiece | None:
        return self._pieces.get(piece_id)

    def put(self, piece: KnowledgePiece) -> None:
        self._pieces[piece.piece_id] = piece

    def delete(self, piece_id: str) -> None:
        self._pieces.pop(piece_id, None)

    def search(self, query: str, *, top_k: int, among: PieceFilter) -> list[RetrievedPiece]:
        wanted = _words(query)
        scored = (
            retrieved(piece, score=len(wanted & _words_of(piece)) / len(wanted))
            for piece in self._pieces.values()
            if wanted and piece.entity_id in {None, among.entity_id} and among.admits(piece)
        )
        return merge_pieces(piece for piece in scored if piece.score > 0)[:top_k]

    def close(self) -> None:
        """Do nothing: the store can be used after it."""


class MemoryGraphStore:
    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._edges: dict[tuple[str, str, str], GraphEdge] = {}

    def find_node(self, node_id: str) -> GraphNode | None:
        return self._nodes.get(node_id)

    def put_node(self, node: GraphNode) -> None:
        self._nodes[node.node_id] = node

    def delete_node(self, node_id: str) -> None:
        self._nodes.pop(node_id, None)
        self._edges = {
            key: edge for key, edge in self._edges.items() if node_id not in {edge.source_id, edge.target_id}
        }

    def put_edge(self, edge: GraphEdge) -> None:
        missing = [node_id for node_id in (edge.source_id, edge.target_id) if node_id not in self._nodes]
        if missing:
            raise MissingNode(f"there is no node {missing[0]!r}; put both nodes of an edge first")
        self._edges[edge.key] = edge

    def find_relations(self, node_id: str, *, depth: int) -> list[GraphRelation]:
        relations: list[GraphRelation] = []
        seen, layer = {node_id}, {node_id}
        for distance in range(1, depth + 1):
            edges = [edge for edge in self._edges.values() if edge.source_id in layer]
            relations += [self._relation(edge, distance) for edge in edges]
            layer = set(sorted({edge.target_id for edge in edges} - seen)[: MAX_NODES - len(seen)])
            seen |= layer
        return merge_relations(relations)

    def close(self) -> None:
        """Do nothing: the store can be used after it."""

    def _relation(self, edge: GraphEdge, depth: int) -> GraphRelation:
        target = self._nodes[edge.target_id]
        return GraphRelation(
            relation_type=edge.edge_type,
            target_node_id=target.node_id,
            target_type=target.node_type,
            label=target.label,
            depth=depth,
            piece_id=edge.piece_id,
            properties=edge.properties,
        )


def open_memory_stores() -> KnowledgeStores:
    """Return three empty stores."""
    return KnowledgeStores(MemoryMetadataStore(), MemoryPieceStore(), MemoryGraphStore())


def _words_of(piece: KnowledgePiece) -> set[str]:
    return _words(" ".join(_texts_of(piece)))


def _texts_of(piece: KnowledgePiece) -> Iterable[str]:
    return filter(None, (piece.content, piece.title, piece.embedding_text, *piece.tags))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
