"""Imports of curated knowledge: one JSON document with entities, pieces and a graph."""

from typing import Any, Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import StrictModel, example
from kb_contracts.knowledge.import_document import SkippedItem

_DOCUMENT: Final = {
    "metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}},
    "pieces": [
        {
            "piece_id": "les-rans-init",
            "content": "Initialize transient LES from converged RANS",
            "knowledge_type": "procedure",
            "entity_id": "user:alice",
        }
    ],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user"},
            {"node_id": "technique:les", "node_type": "technique"},
        ],
        "edges": [{"source_id": "user:alice", "edge_type": "SPECIALIZES_IN", "target_id": "technique:les"}],
    },
}


class ImportKnowledge(BaseModel):
    """A document to import. An invalid item is skipped with a reason, so nothing of it is refused as a whole."""

    model_config = {**StrictModel.model_config, **example(_DOCUMENT), "extra": "allow"}

    metadata: Any = Field(
        default=None,
        description="Entities by their ids, each with `entity_type` and `properties`. `global` is for all.",
    )
    pieces: Any = Field(
        default=None, description="List of pieces, as entries with a `piece_id` and a `knowledge_type`."
    )
    graph: Any = Field(default=None, description="Lists `nodes` and `edges`. Nodes are created before edges.")


class ImportCounts(BaseModel):
    metadata: int = Field(default=0, description="Number of entities, with the global record.")
    pieces: int = 0
    nodes: int = 0
    edges: int = 0


class ImportReport(BaseModel):
    model_config = example(
        {
            "dry_run": False,
            "loaded": {"metadata": 1, "pieces": 1, "nodes": 2, "edges": 1},
            "changed": {"metadata": 1, "pieces": 1, "nodes": 2, "edges": 1},
            "skipped": [
                {
                    "section": "pieces",
                    "index": 1,
                    "id": "vault",
                    "reason": "content contains a credential (password) in line 1",
                }
            ],
        }
    )

    dry_run: bool = Field(description="Whether nothing was written: the numbers are what would have happened.")
    loaded: ImportCounts = Field(description="Items that are stored as the document has them, also unchanged ones.")
    changed: ImportCounts = Field(description="Items among them that were created or changed.")
    skipped: list[SkippedItem] = Field(description="Items that were not loaded, each with the reason.")
