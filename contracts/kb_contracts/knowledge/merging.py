"""Merging of what the layers of a retrieval found. The order of input never matters."""

import json
from collections.abc import Iterable

from pydantic import BaseModel

from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece


def graph_score(depth: int) -> float:
    """Return the score of a piece that is linked to an edge `depth` edges from the entity."""
    return 1.0 / depth


def merge_pieces(*found: Iterable[RetrievedPiece]) -> list[RetrievedPiece]:
    """Return each piece once, with its higher score, by falling score and then by identifier."""
    best: dict[str, RetrievedPiece] = {}
    for piece in (piece for pieces in found for piece in pieces):
        known = best.get(piece.piece_id)
        if known is None or _rank(piece) > _rank(known):
            best[piece.piece_id] = piece
    return sorted(best.values(), key=lambda piece: (-piece.score, piece.piece_id))


def merge_relations(relations: Iterable[GraphRelation]) -> list[GraphRelation]:
    """Return each relation to a target once, at its smallest depth, by depth, relation type and target."""
    unique: dict[tuple[str, str, str], GraphRelation] = {}
    for relation in sorted(relations, key=_place):
        unique.setdefault((relation.relation_type, relation.target_node_id, relation.piece_id or ""), relation)
    return list(unique.values())


def _rank(piece: RetrievedPiece) -> tuple[float, str]:
    # Two versions of a piece may be found while it changes: the choice between them must not depend on their order.
    return piece.score, _canonical(piece)


def _place(relation: GraphRelation) -> tuple[int, str, str, str]:
    return relation.depth, relation.relation_type, relation.target_node_id, _canonical(relation)


def _canonical(model: BaseModel) -> str:
    return json.dumps(model.model_dump(mode="json"), sort_keys=True)
