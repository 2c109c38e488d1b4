"""Curated knowledge of one entity, in three stores."""

from collections.abc import Collection
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from kb_client.knowledge.stores import GraphStore, MetadataStore, PieceFilter, PieceStore
from kb_contracts.knowledge.assemble_retrieval import assemble_retrieval, linked_pieces
from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID
from kb_contracts.knowledge.knowledge_formatter import KnowledgeFormatter
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult

DEFAULT_TOP_K = 5
DEFAULT_DEPTH = 1


class KnowledgeBase:
    """Retrieves what is known about an entity, and what of it belongs to a query.

    As a context manager it closes its stores at the end.

    Args:
        metadata_store: properties of entities.
        piece_store: pieces of knowledge.
        graph_store: nodes and edges.
        active_entity_id: entity that is asked about, such as `user:alice`. Without one, only what applies to all
            entities is retrieved.
        formatter: writes the text that a call returns.
    """

    def __init__(
        self,
        metadata_store: MetadataStore,
        piece_store: PieceStore,
        graph_store: GraphStore,
        active_entity_id: str | None = None,
        *,
        formatter: KnowledgeFormatter | None = None,
    ) -> None:
        self.metadata_store = metadata_store
        self.piece_store = piece_store
        self.graph_store = graph_store
        self.active_entity_id = active_entity_id
        self.formatter = formatter or KnowledgeFormatter()
        self._closing = ExitStack()
        # One object may be all three stores.
        for store in {id(store): store for store in (graph_store, piece_store, metadata_store)}.values():
            self._closing.callback(store.close)

    def __call__(self, query: str) -> str:
        """Return all that was retrieved as text with headers, always the same for the same state."""
        return self.formatter(self.retrieve(query))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close each store once, the others also if one fails; then its error is raised."""
        self._closing.close()

    def add_piece(self, piece: KnowledgePiece) -> None:
        """Add a piece, or replace the one with its identifier."""
        self.piece_store.put(piece)

    def retrieve(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        depth: int = DEFAULT_DEPTH,
        knowledge_types: Collection[str] | None = None,
        info_types: Collection[str] | None = None,
        tags: Collection[str] | None = None,
    ) -> RetrievalResult:
        """Return the properties of the entity, the pieces that belong to a query, and what the entity is related to.

        Args:
            query: question or task; if it is blank, no pieces are searched for.
            top_k: number of pieces that are searched for; pieces of relations come in addition.
            depth: number of edges to follow from the entity.
            knowledge_types: only pieces of these kinds.
            info_types: only pieces of these sections.
            tags: only pieces with one of these tags.
        """
        among = PieceFilter(
            entity_id=self.active_entity_id, knowledge_types=knowledge_types, info_types=info_types, tags=tags
        )
        relations = self._find_relations(depth)
        found = self.piece_store.search(query, top_k=top_k, among=among) if query.strip() else []
        linked = linked_pieces(relations, [piece for piece in self._find_linked(relations) if among.admits(piece)])
        return assemble_retrieval(
            metadata=self._find_properties(self.active_entity_id),
            global_metadata=self._find_properties(GLOBAL_RECORD_ID),
            pieces=[*found, *linked],
            relations=relations,
        )

    def _find_properties(self, entity_id: str | None) -> dict[str, PropertyValue]:
        entity = None if entity_id is None else self.metadata_store.find(entity_id)
        return {} if entity is None else entity.properties

    def _find_relations(self, depth: int) -> list[GraphRelation]:
        entity_id = self.active_entity_id
        return [] if entity_id is None else self.graph_store.find_relations(entity_id, depth=depth)

    def _find_linked(self, relations: Collection[GraphRelation]) -> list[KnowledgePiece]:
        ids = sorted({relation.piece_id for relation in relations if relation.piece_id is not None})
        pieces = (self.piece_store.find(piece_id) for piece_id in ids)
        return [piece for piece in pieces if piece is not None]
