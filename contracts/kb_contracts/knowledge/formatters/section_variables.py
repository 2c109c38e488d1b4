"""Variables of a template: the knowledge of a section as plain JSON values."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from kb_contracts.knowledge.plain_text import format_value, metadata_lines, pieces_text, relation_lines
from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievedPiece
from kb_contracts.knowledge.routing import RoutedSection, format_section
from kb_contracts.metadata import DateValue

JsonValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None


def section_variables(section: RoutedSection) -> dict[str, JsonValue]:
    """Return `text`, `metadata`, `global_metadata`, `pieces` and `relations`; `text` is the section as by default."""
    return {
        "text": format_section(section),
        "metadata": _plain_map(section.metadata),
        "global_metadata": _plain_map(section.global_metadata),
        "pieces": [_piece(piece) for piece in section.pieces],
        "relations": [_relation(relation) for relation in section.relations],
    }


def section_texts(section: RoutedSection) -> dict[str, str]:
    """Return the same names, each with its text."""
    return {
        "text": format_section(section),
        "metadata": metadata_lines(section.metadata),
        "global_metadata": metadata_lines(section.global_metadata),
        "pieces": pieces_text(section.pieces),
        "relations": relation_lines(section.relations),
    }


def value_text(value: JsonValue) -> str:
    """Return what a template writes for a value: nothing for null, and JSON for lists and objects."""
    match value:
        case None:
            return ""
        case list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return format_value(value)


def _piece(piece: RetrievedPiece) -> dict[str, JsonValue]:
    return piece.model_dump(mode="json")


def _relation(relation: GraphRelation) -> dict[str, JsonValue]:
    return relation.model_dump(mode="json", exclude={"properties"}) | {"properties": _plain_map(relation.properties)}


def _plain_map(properties: Mapping[str, PropertyValue]) -> dict[str, JsonValue]:
    return {key: _plain(properties[key]) for key in sorted(properties)}


def _plain(value: PropertyValue) -> JsonValue:
    return format_value(value) if isinstance(value, DateValue) else value
