"""The state that the golden files are written from, and arbitrary states."""

from typing import Final

from hypothesis import strategies as st

from kb_contracts.knowledge.properties import PropertyValue
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece

PROCEDURE: Final = RetrievedPiece(
    piece_id="les-rans-init",
    content="Initialize transient LES from converged RANS -- cuts spin-up by ~40%",
    knowledge_type="procedure",
    info_type="instructions",
    tags=["les", "initialization", "rans"],
    score=1.0,
)
FACT: Final = RetrievedPiece(
    piece_id="smagorinsky",
    content="Smagorinsky constant of 0.1 works better than default 0.17",
    knowledge_type="fact",
    info_type="context",
    tags=["les", "smagorinsky"],
    score=0.5,
)
METADATA: Final[dict[str, PropertyValue]] = {"team": "aero", "specialization": "turbomachinery"}
SPECIALIZES_IN: Final = GraphRelation(
    relation_type="SPECIALIZES_IN",
    target_node_id="technique:les",
    target_type="technique",
    label="LES simulation expert",
    depth=1,
)
USES: Final = GraphRelation(
    relation_type="USES",
    target_node_id="technique:dynamic-smagorinsky",
    target_type="technique",
    label="15% better spectral agreement on JN-042",
    depth=1,
    piece_id="les-rans-init",
)
ALL_LAYERS: Final = RetrievalResult(
    metadata=METADATA,
    global_metadata={"organization": "NASA"},
    pieces=[FACT, PROCEDURE],
    graph_context=[USES, SPECIALIZES_IN],
)

_names = st.text(st.sampled_from("abcé:"), min_size=1, max_size=3)
_texts = st.text(st.sampled_from("ab:\n "), max_size=4)
_values = st.booleans() | st.integers(-9, 9) | st.floats(-1e9, 1e9) | _texts
_property_maps = st.dictionaries(_names, _values, max_size=3)
pieces: Final = st.builds(
    RetrievedPiece,
    piece_id=_names,
    content=_texts,
    knowledge_type=st.sampled_from(["fact", "note"]),
    info_type=st.sampled_from(["user_profile", "context", "skills", "history"]),
    tags=st.lists(_names, max_size=2),
    score=st.sampled_from([0.0, 1 / 3, 0.5, 1.0]),
)
relations: Final = st.builds(
    GraphRelation,
    relation_type=st.sampled_from(["USES", "KNOWS"]),
    target_node_id=_names,
    target_type=_names,
    label=st.none() | _texts,
    depth=st.integers(1, 4),
    piece_id=st.none() | _names,
    properties=_property_maps,
)
results: Final = st.builds(
    RetrievalResult,
    metadata=_property_maps,
    global_metadata=_property_maps,
    pieces=st.lists(pieces, max_size=6),
    graph_context=st.lists(relations, max_size=6),
)
