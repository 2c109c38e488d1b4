"""The client's knowledge base puts three stores together."""

import warnings
from pathlib import Path
from typing import Any, Final

import pytest

from kb_client.knowledge import (
    Entity,
    FormatterTemplate,
    KnowledgeBase,
    KnowledgeDataLoader,
    KnowledgePiece,
    KnowledgeProvider,
    KnowledgeStores,
    SkippedKnowledge,
    compile_formatter,
    open_stores,
)

GOLDEN: Final = Path(__file__).parent / "golden"
DOCUMENT: Final[dict[str, Any]] = {
    "metadata": {
        "user:alice": {"entity_type": "user", "properties": {"team": "aero", "specialization": "turbomachinery"}},
        "global": {"properties": {"organization": "NASA"}},
    },
    "pieces": [
        {
            "piece_id": "smagorinsky",
            "content": "Smagorinsky constant of 0.1 works better than default 0.17",
            "knowledge_type": "fact",
            "tags": ["les", "smagorinsky"],
        },
        {
            "piece_id": "les-rans-init",
            "content": "Initialize transient LES from converged RANS -- cuts spin-up by ~40%",
            "knowledge_type": "procedure",
            "info_type": "instructions",
            "tags": ["les", "initialization", "rans"],
        },
    ],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user"},
            {"node_id": "technique:les", "node_type": "technique", "label": "LES simulation expert"},
            {
                "node_id": "technique:dynamic-smagorinsky",
                "node_type": "technique",
                "label": "15% better spectral agreement on JN-042",
            },
        ],
        "edges": [
            {
                "source_id": "user:alice",
                "target_id": "technique:dynamic-smagorinsky",
                "edge_type": "USES",
                "properties": {"piece_id": "les-rans-init"},
            },
            {"source_id": "user:alice", "target_id": "technique:les", "edge_type": "SPECIALIZES_IN"},
        ],
    },
}


@pytest.fixture
def stores() -> KnowledgeStores:
    return open_stores("memory")


def test_a_loaded_document_gives_the_golden_text(stores: KnowledgeStores) -> None:
    report = KnowledgeDataLoader(*stores).load(DOCUMENT)
    assert report.loaded == {"metadata": 2, "pieces": 2, "graph.nodes": 3, "graph.edges": 2}
    assert report.skipped == []
    with KnowledgeBase(*stores, "user:alice") as kb:
        assert kb("Which Smagorinsky constant?").encode() == (GOLDEN / "all_layers.txt").read_bytes()


def test_a_linked_piece_is_retrieved_without_a_query_with_score_1(stores: KnowledgeStores) -> None:
    KnowledgeDataLoader(*stores).load(DOCUMENT)
    result = KnowledgeBase(*stores, "user:alice").retrieve("  ")
    assert [(piece.piece_id, piece.score) for piece in result.pieces] == [("les-rans-init", 1.0)]
    assert result.sections["instructions"].startswith("[procedure] Initialize")
    nothing = KnowledgeBase(*stores, "user:alice").retrieve(" ", knowledge_types=["fact"])
    assert nothing.pieces == []


def test_without_an_entity_only_what_applies_to_all_is_retrieved(stores: KnowledgeStores) -> None:
    KnowledgeDataLoader(*stores).load(DOCUMENT)
    result = KnowledgeBase(*stores).retrieve("Smagorinsky")
    assert (result.metadata, result.global_metadata) == ({}, {"organization": "NASA"})
    assert [piece.piece_id for piece in result.pieces] == ["smagorinsky"]
    assert result.graph_context == []


def test_an_added_piece_is_found(stores: KnowledgeStores) -> None:
    kb = KnowledgeBase(*stores)
    kb.add_piece(KnowledgePiece(content="The tunnel closes at noon.", knowledge_type="fact"))
    assert kb("When does the tunnel close?") == "[Knowledge]\n[fact] The tunnel closes at noon."


def test_the_provider_returns_sections_and_lets_a_function_or_a_template_write_one(stores: KnowledgeStores) -> None:
    stores.metadata_store.put(Entity(entity_id="user:alice", entity_type="user", properties={"team": "aero"}))
    kb = KnowledgeBase(*stores, "user:alice")
    kb.add_piece(KnowledgePiece(content="The tunnel closes at noon.", knowledge_type="fact"))
    kb.add_piece(KnowledgePiece(content="Book the tunnel.", knowledge_type="procedure", info_type="skills"))
    assert KnowledgeProvider(kb)("tunnel") == {
        "user_profile": "team: aero",
        "context": "[fact] The tunnel closes at noon.",
        "skills": "[procedure] Book the tunnel.",
    }
    chosen = KnowledgeProvider(
        kb,
        formatters={
            "context": lambda section: f"{len(section.pieces)} facts",
            "skills": compile_formatter(FormatterTemplate(kind="jinja2", template="{{ pieces[0].content|upper }}")),
        },
    )
    assert chosen("tunnel") == {"user_profile": "team: aero", "context": "1 facts", "skills": "BOOK THE TUNNEL."}


def test_bad_items_are_skipped_with_warnings_and_everything_else_is_loaded(stores: KnowledgeStores) -> None:
    document = {
        **DOCUMENT,
        "pieces": [*DOCUMENT["pieces"], {"content": "", "knowledge_type": "fact"}],
        "graph": {
            **DOCUMENT["graph"],
            "edges": [{"source_id": "user:alice", "target_id": "tool:x", "edge_type": "USES"}],
        },
    }
    with pytest.warns(SkippedKnowledge) as caught:
        report = KnowledgeDataLoader(*stores).load(document)
    assert [str(each.message).partition(" was")[0] for each in caught] == ["pieces[2]", "graph.edges[0]"]
    assert report.loaded == {"metadata": 2, "pieces": 2, "graph.nodes": 3, "graph.edges": 0}
    assert [each.id for each in report.skipped] == [None, "user:alice USES tool:x"]


def test_a_file_is_loaded_and_another_kind_of_json_is_refused(stores: KnowledgeStores, tmp_path: Path) -> None:
    path = tmp_path / "knowledge.json"
    path.write_text('{"pieces": [{"content": "Größe 42", "knowledge_type": "FACT"}]}', encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KnowledgeDataLoader(*stores).load_file(path).loaded["pieces"] == 1
    path.write_text("[]")
    with pytest.raises(ValueError, match="must contain an object"):
        KnowledgeDataLoader(*stores).load_file(path)


class _CountedStore:
    """A store that counts how often it is closed, and may fail then."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self._error = error

    def close(self) -> None:
        self.closed += 1
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_all_stores_are_closed_once_although_one_fails(failing: int) -> None:
    stores: list[Any] = [_CountedStore(OSError("gone") if number == failing else None) for number in range(3)]
    kb = KnowledgeBase(*stores)
    with pytest.raises(OSError, match="gone"), kb:
        pass
    kb.close()
    assert [store.closed for store in stores] == [1, 1, 1]


def test_a_store_that_is_all_three_is_closed_once() -> None:
    store: Any = _CountedStore()
    with KnowledgeBase(store, store, store):
        pass
    assert store.closed == 1


def test_stores_that_no_package_registers_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no stores are registered as 'redis'; there are .*memory"):
        open_stores("redis")
