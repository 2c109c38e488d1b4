"""Routing of each part of a retrieval to a section of a prompt, by info type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kb_contracts.knowledge.entry_fields import KNOWN_INFO_TYPES
from kb_contracts.knowledge.merging import merge_pieces
from kb_contracts.knowledge.plain_text import ITEM_DELIMITER, metadata_lines, pieces_text, relation_lines
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece

METADATA_INFO_TYPE: Final = "user_profile"
ENTITY_RELATION_INFO_TYPE: Final = "user_profile"
OTHER_RELATION_INFO_TYPE: Final = "context"


@dataclass(slots=True)
class RoutedSection:
    """The parts of a retrieval that one section is made of."""

    metadata: Mapping[str, PropertyValue] = field(default_factory=dict)
    global_metadata: Mapping[str, PropertyValue] = field(default_factory=dict)
    pieces: list[RetrievedPiece] = field(default_factory=list)
    relations: list[GraphRelation] = field(default_factory=list)


SectionFormatter: TypeAlias = Callable[[RoutedSection], str]
"""Function that writes a section."""


def route(result: RetrievalResult, *, metadata_info_type: str = METADATA_INFO_TYPE) -> dict[str, RoutedSection]:
    """Return the sections that are not empty: first the known info types in their order, then others by name."""
    sections: dict[str, RoutedSection] = {}
    if result.metadata or result.global_metadata:
        sections[metadata_info_type] = RoutedSection(result.metadata, result.global_metadata)
    pieces = merge_pieces(result.pieces)
    for piece in pieces:
        sections.setdefault(piece.info_type, RoutedSection()).pieces.append(piece)
    info_types = {piece.piece_id: piece.info_type for piece in pieces}
    for relation in result.graph_context:
        sections.setdefault(_info_type_of(relation, info_types), RoutedSection()).relations.append(relation)
    return dict(sorted(sections.items(), key=lambda section: _section_order(section[0])))


def format_section(section: RoutedSection, *, item_delimiter: str = ITEM_DELIMITER) -> str:
    """Return the text of a section: no headers and no tags."""
    parts = (
        metadata_lines(section.metadata),
        metadata_lines(section.global_metadata),
        pieces_text(section.pieces, item_delimiter=item_delimiter),
        relation_lines(section.relations),
    )
    return "\n".join(part for part in parts if part)


def format_sections(
    result: RetrievalResult,
    *,
    metadata_info_type: str = METADATA_INFO_TYPE,
    item_delimiter: str = ITEM_DELIMITER,
    formatters: Mapping[str, SectionFormatter] | None = None,
) -> dict[str, str]:
    """Return the text of each section by info type.

    Args:
        formatters: formatter of the section of an info type, in place of `format_section`.
    """
    chosen = formatters or {}
    texts = {
        name: chosen[name](section) if name in chosen else format_section(section, item_delimiter=item_delimiter)
        for name, section in route(result, metadata_info_type=metadata_info_type).items()
    }
    return {name: text for name, text in texts.items() if text}


def _info_type_of(relation: GraphRelation, info_types: Mapping[str, str]) -> str:
    # A piece that was deleted leaves its edge, which then is one without a piece.
    if relation.piece_id is not None and relation.piece_id in info_types:
        return info_types[relation.piece_id]
    return ENTITY_RELATION_INFO_TYPE if relation.depth == 1 else OTHER_RELATION_INFO_TYPE


def _section_order(info_type: str) -> tuple[int, str]:
    known = info_type in KNOWN_INFO_TYPES
    return (KNOWN_INFO_TYPES.index(info_type) if known else len(KNOWN_INFO_TYPES)), info_type
