"""Reads what a model proposes: the valid items of its answer as the document of an import, and its mistakes."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from kb_contracts import strict_json
from kb_contracts.knowledge.entry_fields import DEFAULT_INFO_TYPE
from kb_contracts.knowledge.import_document import (
    MAX_IMPORT_ITEMS,
    ImportDocument,
    SkippedItem,
    count_items,
    missing_nodes,
)
from kb_contracts.knowledge.pieces import KnowledgePiece
from kb_knowledge.read_checked_import import read_checked_import

INSTRUCTIONS: Final = "instructions"
"""Section of prompts that models obey. Only people write it: a text could contain orders."""

_FENCED: Final = re.compile(r"```[a-z]*\s*\n(.*)\n\s*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Proposal:
    document: Mapping[str, Any] | None
    """Valid items of the answer; None if the answer is no document."""
    warnings: list[SkippedItem] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    """Mistakes of an answer that is no document."""


def read_proposal(answer: str, *, known_nodes: Collection[str]) -> Proposal:
    """Return the valid part of an answer.

    Args:
        answer: of the model.
        known_nodes: ids of nodes that edges may refer to beside those of the answer.
    """
    fenced = _FENCED.search(answer)
    try:
        document = strict_json.parse((fenced[1] if fenced else answer).encode("utf-8", "replace"))
    except ValueError as error:
        return Proposal(None, mistakes=[f"the answer is not JSON: {error}"])
    if not isinstance(document, dict):
        return Proposal(None, mistakes=["the answer is not a JSON object"])
    if count_items(document) > MAX_IMPORT_ITEMS:
        return Proposal(None, mistakes=[f"the answer has more than {MAX_IMPORT_ITEMS} items"])
    read = read_checked_import(document)
    warnings = list(read.skipped)
    return Proposal(_to_document(read, known_nodes, warnings), warnings)


def _to_document(read: ImportDocument, known_nodes: Collection[str], warnings: list[SkippedItem]) -> dict[str, Any]:
    node_ids = {node.value.node_id for node in read.nodes} | set(known_nodes)
    edges = []
    for edge in read.edges:
        if (reason := missing_nodes(edge.value, node_ids)) is None:
            edges.append(_to_json(edge.value))
        else:
            warnings.append(edge.skipped(reason))
    return {
        "metadata": {
            each.value.entity_id: {name: value for name, value in _to_json(each.value).items() if name != "entity_id"}
            for each in read.entities
        },
        "pieces": [_to_json(_as_data(each.value)) for each in read.pieces],
        "graph": {"nodes": [_to_json(each.value) for each in read.nodes], "edges": edges},
    }


def _as_data(piece: KnowledgePiece) -> KnowledgePiece:
    if piece.info_type != INSTRUCTIONS:
        return piece
    return piece.model_copy(update={"info_type": DEFAULT_INFO_TYPE})


def _to_json(item: BaseModel) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)
