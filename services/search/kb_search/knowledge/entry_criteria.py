"""Filters of searches in the knowledge base of entries, on the metadata of their documents. Pure."""

from collections.abc import Sequence
from typing import Any

from kb_contracts.knowledge.entities import ANY_ENTITY
from kb_contracts.knowledge.entry_fields import KNOWLEDGE_TYPES
from kb_search.filters.compile_filter import Criteria


def criteria_of_types(types: Sequence[str]) -> Criteria:
    """Return the filter of entries that have one of the types, or come from a source of one of these kinds."""
    if not types:
        return Criteria()
    of_types = {"$in": list(types)}
    return Criteria(metadata_filter={"$or": [{"type": of_types}, {"source_kind": of_types}]})


def criteria_of_pieces(
    *,
    entity_id: str | None,
    knowledge_types: Sequence[str] | None,
    info_types: Sequence[str] | None,
    tags: Sequence[str] | None,
) -> Criteria:
    """Return the filter of the pieces of an entity, and of those that apply to all."""
    entities = [ANY_ENTITY] if entity_id is None else [ANY_ENTITY, entity_id]
    wanted: dict[str, Any] = {
        # An entry without a kind of knowledge is no piece.
        "knowledge_type": {"$in": list(knowledge_types or KNOWLEDGE_TYPES)},
        "entity_id": {"$in": entities},
    }
    if info_types is not None:
        wanted["info_type"] = {"$in": list(info_types)}
    return Criteria(tag_ids=tags or (), metadata_filter=wanted)
