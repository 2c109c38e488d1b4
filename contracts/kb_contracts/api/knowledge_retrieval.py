"""Reads of curated knowledge: searches of entries, and retrieval over metadata, pieces and the graph."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, Field

from kb_contracts.api.model import StrictModel, example
from kb_contracts.api.search import MAX_QUERY_CHARACTERS, MAX_TOP_K, Ids, RequestedKbId, Strength
from kb_contracts.knowledge.entities import EntityId
from kb_contracts.knowledge.entry_fields import InfoType, KnowledgeType
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate
from kb_contracts.knowledge.graph import MAX_DEPTH
from kb_contracts.knowledge.plain_text import ITEM_DELIMITER
from kb_contracts.knowledge.retrieval import RetrievalResult
from kb_contracts.knowledge.routing import METADATA_INFO_TYPE
from kb_contracts.text_rules import storable

MAX_LISTED: Final = 20
"""Limit of the values of a filter, and of the formatters of a request."""
MAX_DELIMITER_CHARACTERS: Final = 100

_CONTENT: Final = "Initialize transient LES from converged RANS: that cuts spin-up by about 40 %."
_RETRIEVED: Final[dict[str, Any]] = {
    "metadata": {"team": "aero"},
    "global_metadata": {"organization": "NASA"},
    "pieces": [
        {
            "piece_id": "les-rans-init",
            "content": _CONTENT,
            "knowledge_type": "procedure",
            "info_type": "instructions",
            "entity_id": None,
            "title": "Initial state of a transient LES",
            "type": "note",
            "tags": ["les", "rans"],
            "score": 1.0,
        }
    ],
    "graph_context": [
        {
            "relation_type": "USES",
            "target_node_id": "technique:les",
            "target_type": "technique",
            "label": "Large eddy simulation",
            "depth": 1,
            "piece_id": "les-rans-init",
            "properties": {"piece_id": "les-rans-init"},
        }
    ],
    "sections": {
        "user_profile": "team: aero\norganization: NASA",
        "instructions": f"[procedure] {_CONTENT}\nUSES → Technique:les (Large eddy simulation)",
    },
    "omitted_pieces": 0,
    "spu_charged": 1,
    "degraded": [],
}


class RetrieveKnowledge(StrictModel):
    model_config = example({"query": "How do I start an LES?", "entity_id": "user:alice"})

    query: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS), AfterValidator(storable)] = Field(
        description="Question or task. A blank one searches for no pieces; those that are linked to the graph are "
        "returned all the same."
    )
    entity_id: EntityId | None = Field(
        None,
        description="Entity that is asked about. Its pieces are found in addition to those that apply to all. Default: "
        "none, so that only what applies to all entities is returned.",
    )
    top_k: int = Field(
        5, ge=1, le=MAX_TOP_K, description="Greatest number of pieces that the search finds. Default: 5."
    )
    knowledge_types: Annotated[list[KnowledgeType], Field(min_length=1, max_length=MAX_LISTED)] | None = Field(
        None, description="Only pieces of these kinds."
    )
    info_types: Annotated[list[InfoType], Field(min_length=1, max_length=MAX_LISTED)] | None = Field(
        None, description="Only pieces of these sections."
    )
    tags: Ids | None = Field(None, description="Only pieces with any of these tags.")
    kb_ids: Annotated[list[RequestedKbId], Field(min_length=1, max_length=MAX_LISTED)] | None = Field(
        None,
        description="Knowledge bases to search for pieces. Default: the one of the organization's entries.",
    )
    depth: int = Field(
        1, ge=0, le=MAX_DEPTH, description="Number of edges to follow from the node of the entity. Default: 1."
    )
    metadata_info_type: InfoType = Field(
        METADATA_INFO_TYPE, description=f"Section that properties go to. Default: `{METADATA_INFO_TYPE}`."
    )
    item_delimiter: Annotated[str, Field(max_length=MAX_DELIMITER_CHARACTERS), AfterValidator(storable)] = Field(
        ITEM_DELIMITER, description="Text between two pieces of a section."
    )
    formatters: Annotated[dict[InfoType, FormatterTemplate], Field(max_length=MAX_LISTED)] = Field(
        default_factory=dict, description="Templates that write the sections of info types."
    )


class RetrievedKnowledge(RetrievalResult):
    model_config = example(_RETRIEVED)

    omitted_pieces: int = Field(
        description="Number of pieces that were left out because all of them together are too long. The remaining ones "
        "are whole, those with the highest scores."
    )
    spu_charged: int = Field(description="SPUs charged for embedding the query; 0 if its vector was cached.")
    degraded: list[str] = Field(
        description="Parts that the search was answered without: `vector` if the embedding provider returned no vector "
        "in time."
    )


class EntryHit(BaseModel):
    entry_id: str
    chunk_id: str = Field(description="Stable id of the passage.")
    strength: Strength = Field(
        default="weak", description="How well the passage fits the query; as in a search of documents."
    )
    score: float = Field(
        ge=0,
        le=1,
        description="Number by which the hits are ordered, as in a search of documents; no probability.",
    )
    content: str = Field(description="Text of the passage.")
    entry_title: str


class EntrySearchResponse(BaseModel):
    model_config = example(
        {
            "hits": [
                {
                    "entry_id": "les-rans-init",
                    "chunk_id": "entry-les-rans-init:0123456789abcdef01234567:0",
                    "strength": "strong",
                    "score": 0.81,
                    "content": _CONTENT,
                    "entry_title": "Initial state of a transient LES",
                }
            ],
            "spu_charged": 1,
            "degraded": [],
        }
    )

    hits: list[EntryHit] = Field(description="Passages of entries, best first.")
    spu_charged: int = Field(description="SPUs charged for embedding the query; 0 if its vector was cached.")
    degraded: list[str] = Field(
        description="Parts that the search was answered without: `vector` if the embedding provider returned no vector "
        "in time."
    )
