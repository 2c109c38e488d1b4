"""Reads the document of an import, and skips items with credentials."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from kb_contracts.knowledge.entities import Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.knowledge.import_document import ImportDocument, ImportItem, SkippedItem, read_import
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_knowledge.content_check import property_lines
from kb_shared.text.content_check import check_content
from kb_shared.text.sensitive_content import find_sensitive

M = TypeVar("M", bound=BaseModel)

MAX_CONTENT_BYTES: Final = 900_000


def read_checked_import(document: Mapping[str, Any]) -> ImportDocument:
    """Return the valid items without credentials, and the reasons of all others."""
    read = read_import(document)
    skipped = read.skipped
    return ImportDocument(
        entities=_without_credentials(read.entities, _texts_of_entity, skipped),
        pieces=_without_credentials(_small_enough(read.pieces, skipped), _texts_of_piece, skipped),
        nodes=_without_credentials(read.nodes, _texts_of_node, skipped),
        edges=_without_credentials(read.edges, _texts_of_edge, skipped),
        skipped=[_without_secret_id(each) for each in skipped],
    )


def _without_secret_id(skipped: SkippedItem) -> SkippedItem:
    # An id may be the credential itself.
    return skipped.model_copy(update={"id": None}) if find_sensitive(skipped.id or "") else skipped


def _small_enough(
    pieces: Iterable[ImportItem[KnowledgePiece]], skipped: list[SkippedItem]
) -> Iterator[ImportItem[KnowledgePiece]]:
    for piece in pieces:
        # In an event, a control character has six bytes.
        if len(json.dumps(piece.value.content, ensure_ascii=False).encode()) <= MAX_CONTENT_BYTES:
            yield piece
        else:
            skipped.append(piece.skipped(f"content has more than {MAX_CONTENT_BYTES} bytes in JSON; shorten it"))


def _without_credentials(
    items: Iterable[ImportItem[M]], texts: Callable[[M], Iterator[tuple[str, str]]], skipped: list[SkippedItem]
) -> list[ImportItem[M]]:
    clean = []
    for item in items:
        if (reason := _reason(texts(item.value))) is None:
            clean.append(item)
        else:
            skipped.append(item.skipped(reason))
    return clean


def _reason(texts: Iterable[tuple[str, str]]) -> str | None:
    for field, text in texts:
        if found := check_content(text):
            return f"{field} contains a credential ({found.pattern}) in line {found.line}; remove it"
    return None


def _texts_of_properties(item: Entity | GraphEdge | GraphNode) -> Iterator[tuple[str, str]]:
    return (("properties", line) for line in property_lines(item.properties))


def _texts_of_entity(entity: Entity) -> Iterator[tuple[str, str]]:
    yield "entity_id", entity.entity_id
    yield from _texts_of_properties(entity)


def _texts_of_node(node: GraphNode) -> Iterator[tuple[str, str]]:
    yield "node_id", node.node_id
    yield "label", node.label or ""
    yield from _texts_of_properties(node)


def _texts_of_edge(edge: GraphEdge) -> Iterator[tuple[str, str]]:
    yield "source_id", edge.source_id
    yield "target_id", edge.target_id
    yield from _texts_of_properties(edge)


def _texts_of_piece(piece: KnowledgePiece) -> Iterator[tuple[str, str]]:
    yield "piece_id", piece.piece_id
    yield "title", piece.title or ""
    yield "content", piece.content
    yield "embedding_text", piece.embedding_text or ""
    yield from (("tags", tag) for tag in piece.tags)
