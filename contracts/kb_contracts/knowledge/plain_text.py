"""Knowledge as lines of text. The same state gives the same bytes."""

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Final

from kb_contracts.knowledge.merging import merge_pieces
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece
from kb_contracts.metadata import DateValue

SECTION_DELIMITER: Final = "\n\n"
ITEM_DELIMITER: Final = "\n---\n"


def format_value(value: PropertyValue | datetime | date) -> str:
    """Return booleans as `true` and `false`, numbers as JSON writes them, dates in ISO 8601."""
    match value:
        case str():
            return value
        case DateValue():
            return format_value(value.date)
        case date():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return json.dumps(value)


def metadata_lines(metadata: Mapping[str, PropertyValue]) -> str:
    """Return a line `key: value` for each property, sorted by key."""
    return "\n".join(f"{key}: {format_value(metadata[key])}" for key in sorted(metadata))


def pieces_text(
    pieces: Iterable[RetrievedPiece],
    *,
    item_delimiter: str = ITEM_DELIMITER,
    include_tags: bool = False,
    include_scores: bool = False,
) -> str:
    """Return the pieces by falling score, each with its kind of knowledge."""
    return item_delimiter.join(
        _piece_text(piece, include_tags=include_tags, include_scores=include_scores) for piece in merge_pieces(pieces)
    )


def relation_lines(relations: Iterable[GraphRelation]) -> str:
    """Return a line for each relation, sorted by type and target. Relations with equal lines are one."""
    ordered = sorted(
        relations, key=lambda each: (each.relation_type, each.target_node_id, each.target_type, each.label or "")
    )
    return "\n".join(dict.fromkeys(_relation_line(relation) for relation in ordered))


def _piece_text(piece: RetrievedPiece, *, include_tags: bool, include_scores: bool) -> str:
    lines = [f"[{piece.knowledge_type}] {piece.content}"]
    if include_tags and piece.tags:
        lines.append(f"  Tags: {', '.join(piece.tags)}")
    if include_scores:
        lines.append(f"  Score: {format_value(piece.score)}")
    return "\n".join(lines)


def _relation_line(relation: GraphRelation) -> str:
    node_type, node_id = relation.target_type, relation.target_node_id
    name = node_id.partition(":")[2] or node_id
    label = f" ({relation.label})" if relation.label else ""
    return f"{relation.relation_type} → {node_type[:1].upper()}{node_type[1:]}:{name}{label}"
