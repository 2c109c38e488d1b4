"""The last step of a retrieval: one result of what was found in three layers."""

from collections.abc import Iterable, Mapping

from kb_contracts.knowledge.merging import graph_score, merge_pieces, merge_relations
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.knowledge.plain_text import ITEM_DELIMITER
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece
from kb_contracts.knowledge.routing import METADATA_INFO_TYPE, SectionFormatter, format_sections


def retrieved(piece: KnowledgePiece, *, score: float) -> RetrievedPiece:
    """Return a piece with its score."""
    return RetrievedPiece(
        piece_id=piece.piece_id,
        content=piece.content,
        knowledge_type=piece.knowledge_type,
        info_type=piece.info_type,
        entity_id=piece.entity_id,
        title=piece.title,
        type=piece.type,
        tags=piece.tags,
        score=score,
    )


def linked_pieces(relations: Iterable[GraphRelation], pieces: Iterable[KnowledgePiece]) -> list[RetrievedPiece]:
    """Return the pieces that relations are linked to, each with the score of its nearest one."""
    depths: dict[str, int] = {}
    for relation in relations:
        if relation.piece_id is not None:
            depths[relation.piece_id] = min(relation.depth, depths.get(relation.piece_id, relation.depth))
    return [retrieved(piece, score=graph_score(depths[piece.piece_id])) for piece in pieces if piece.piece_id in depths]


def assemble_retrieval(
    *,
    metadata: Mapping[str, PropertyValue],
    global_metadata: Mapping[str, PropertyValue],
    pieces: Iterable[RetrievedPiece],
    relations: Iterable[GraphRelation],
    metadata_info_type: str = METADATA_INFO_TYPE,
    item_delimiter: str = ITEM_DELIMITER,
    formatters: Mapping[str, SectionFormatter] | None = None,
) -> RetrievalResult:
    """Return the result with its sections; of pieces that were found in several layers, those with the higher score.

    Raises:
        UnusableTemplate: a formatter reached its limits.
    """
    result = RetrievalResult(
        metadata=dict(metadata),
        global_metadata=dict(global_metadata),
        pieces=merge_pieces(pieces),
        graph_context=merge_relations(relations),
    )
    sections = format_sections(
        result, metadata_info_type=metadata_info_type, item_delimiter=item_delimiter, formatters=formatters
    )
    return result.model_copy(update={"sections": sections})
