"""The document of an import: entities, pieces and a graph in one JSON object with `metadata`, `pieces` and `graph`.

    {"metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}},
     "pieces": [{"piece_id": "les-rans-init", "content": "...", "knowledge_type": "procedure"}],
     "graph": {"nodes": [{"node_id": "user:alice", "node_type": "user"}], "edges": []}}

An invalid item is skipped with a reason in words, and everything else is read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field, ValidationError

from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID, Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_contracts.reasons.field_reasons import describe

MAX_IMPORT_ITEMS: Final = 10_000
_SECTIONS: Final = ("metadata", "pieces", "graph")
_GRAPH_SECTIONS: Final = ("nodes", "edges")
_QUOTABLE_ID: Final = re.compile(r"[A-Za-z0-9._@+:-]{1,200}")

ImportSection: TypeAlias = Literal["document", "metadata", "pieces", "graph", "graph.nodes", "graph.edges"]
M = TypeVar("M", bound=BaseModel)


class SkippedItem(BaseModel):
    """An item that was not loaded."""

    section: ImportSection = Field(description="Part of the document that contains the item.")
    index: int | None = Field(None, description="Position of the item in its section, from 0; null: the whole section.")
    id: str | None = Field(
        None,
        description="Identifier of the item; of an edge its source, type and target. Null if it has no valid one.",
    )
    reason: str = Field(description="Reason in words, which does not quote what was refused.")


@dataclass(frozen=True, slots=True)
class ImportItem(Generic[M]):
    """A valid item with its place in the document, to report it if it is not loaded after all."""

    section: ImportSection
    index: int
    id: str
    value: M

    def skipped(self, reason: str) -> SkippedItem:
        return SkippedItem(section=self.section, index=self.index, id=self.id, reason=reason)


@dataclass(frozen=True, slots=True)
class ImportDocument:
    """The valid items of a document in its order, and what was skipped."""

    entities: list[ImportItem[Entity]] = field(default_factory=list)
    """Entities, with the global record if the document has one."""
    pieces: list[ImportItem[KnowledgePiece]] = field(default_factory=list)
    nodes: list[ImportItem[GraphNode]] = field(default_factory=list)
    edges: list[ImportItem[GraphEdge]] = field(default_factory=list)
    """Edges; whether their nodes exist is to be checked with `missing_nodes`, since they may be stored already."""
    skipped: list[SkippedItem] = field(default_factory=list)


def count_items(document: Mapping[str, Any]) -> int:
    """Return the number of items of a document, which is at most `MAX_IMPORT_ITEMS`."""
    graph = document.get("graph")
    parts = [document.get("metadata"), document.get("pieces")]
    parts += [graph.get(name) for name in _GRAPH_SECTIONS] if isinstance(graph, Mapping) else []
    return sum(len(part) for part in parts if isinstance(part, (list, Mapping)))


def read_import(document: Mapping[str, Any]) -> ImportDocument:
    """Return the valid items of a document, and a reason for each other one.

    Of several items with one identifier only the first is read: a second import of the document must change nothing.
    """
    read = ImportDocument()
    skipped = read.skipped
    graph = _part_of(document, "graph", kind=Mapping, skipped=skipped) or {}
    skipped += _unknown_parts(document, _SECTIONS, "document") + _unknown_parts(graph, _GRAPH_SECTIONS, "graph")
    metadata = _part_of(document, "metadata", kind=Mapping, skipped=skipped) or {}
    pieces = _part_of(document, "pieces", kind=list, skipped=skipped) or []
    nodes = _part_of(graph, "nodes", kind=list, skipped=skipped) or []
    edges = _part_of(graph, "edges", kind=list, skipped=skipped) or []
    read.entities.extend(_valid_items(_ENTITIES, map(_entity_fields, metadata.items()), skipped))
    read.pieces.extend(_valid_items(_PIECES, pieces, skipped))
    read.nodes.extend(_valid_items(_NODES, nodes, skipped))
    read.edges.extend(_valid_items(_EDGES, edges, skipped))
    return read


def missing_nodes(edge: GraphEdge, node_ids: frozenset[str] | set[str]) -> str | None:
    """Return why an edge can't be created if one of its nodes is not in `node_ids`."""
    missing = [node_id for node_id in (edge.source_id, edge.target_id) if node_id not in node_ids]
    return f"there is no node {' and no node '.join(missing)}; both nodes of an edge must exist" if missing else None


@dataclass(frozen=True, slots=True)
class _ItemKind(Generic[M]):
    section: ImportSection
    model: type[M]
    id_fields: tuple[str, ...]

    def id_of(self, value: M) -> str:
        return " ".join(getattr(value, name) for name in self.id_fields)

    def find_id(self, fields: object) -> str | None:
        """Return the identifier of an item that may be invalid."""
        values = [fields.get(name) for name in self.id_fields] if isinstance(fields, Mapping) else []
        ids = [value for value in values if isinstance(value, str) and _QUOTABLE_ID.fullmatch(value)]
        return " ".join(ids) if len(ids) == len(self.id_fields) else None


_ENTITIES: Final = _ItemKind("metadata", Entity, ("entity_id",))
_PIECES: Final = _ItemKind("pieces", KnowledgePiece, ("piece_id",))
_NODES: Final = _ItemKind("graph.nodes", GraphNode, ("node_id",))
_EDGES: Final = _ItemKind("graph.edges", GraphEdge, ("source_id", "edge_type", "target_id"))


def _valid_items(
    kind: _ItemKind[M], candidates: Iterable[object], skipped: list[SkippedItem]
) -> Iterator[ImportItem[M]]:
    seen: set[str] = set()
    for index, candidate in enumerate(candidates):
        try:
            value = kind.model.model_validate(candidate)
        except ValidationError as error:
            reason = describe(error, kind.model, whole="", most=3, quotes=False)
            skipped.append(SkippedItem(section=kind.section, index=index, id=kind.find_id(candidate), reason=reason))
            continue
        item = ImportItem(section=kind.section, index=index, id=kind.id_of(value), value=value)
        if item.id in seen:
            skipped.append(item.skipped("an earlier item of the document has the same identifier"))
        else:
            seen.add(item.id)
            yield item


def _entity_fields(item: tuple[str, object]) -> object:
    entity_id, fields = item
    if not isinstance(fields, Mapping):
        return fields
    defaults = {"entity_type": GLOBAL_RECORD_ID} if entity_id == GLOBAL_RECORD_ID else {}
    return {**defaults, **fields, "entity_id": entity_id}


def _part_of(parent: Mapping[str, Any], name: str, *, kind: type[Any], skipped: list[SkippedItem]) -> Any:
    part = parent.get(name)
    if part is None or isinstance(part, kind):
        return part
    expected = "a list" if kind is list else "an object"
    section = f"graph.{name}" if name in _GRAPH_SECTIONS else name
    skipped.append(SkippedItem.model_validate({"section": section, "reason": f"must be {expected}"}))
    return None


def _unknown_parts(
    parent: Mapping[str, Any], known: tuple[str, ...], section: Literal["document", "graph"]
) -> list[SkippedItem]:
    if parent.keys() <= set(known):
        return []
    return [SkippedItem(section=section, reason=f"has an unknown part; the parts are {', '.join(known)}")]
