"""An import reads every valid item, and says in words why it skips another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.knowledge.entry_fields import first_line
from kb_contracts.knowledge.import_document import count_items, missing_nodes, read_import
from kb_contracts.knowledge.pieces import KnowledgePiece

_PIECE = {"piece_id": "les-init", "content": "Start from RANS.", "knowledge_type": "procedure"}
_DOCUMENT = {
    "metadata": {
        "user:alice": {
            "entity_type": "user",
            "properties": {"team": "aero", "since": {"$date": "2026-01-31T00:00:00Z"}},
        },
        "global": {"properties": {"organization": "NASA"}},
    },
    "pieces": [_PIECE],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user"},
            {"node_id": "technique:les", "node_type": "technique", "label": "LES"},
        ],
        "edges": [{"source_id": "user:alice", "target_id": "technique:les", "edge_type": "USES"}],
    },
}


def _reasons(document: dict[str, Any]) -> list[str]:
    return [skipped.reason for skipped in read_import(document).skipped]


def test_all_items_of_a_valid_document_are_read() -> None:
    read = read_import(_DOCUMENT)
    assert read.skipped == []
    assert [item.id for item in read.entities] == ["user:alice", "global"]
    assert [item.value.piece_id for item in read.pieces] == ["les-init"]
    assert [item.id for item in read.nodes] == ["user:alice", "technique:les"]
    assert [item.id for item in read.edges] == ["user:alice USES technique:les"]
    assert count_items(_DOCUMENT) == 6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"content": " \n "}, "content: must contain at least one visible character"),
        ({"content": "a\x00b"}, "content: must not contain NUL characters: remove them"),
        (
            {"knowledge_type": "wisdom"},
            (
                'knowledge_type: must be "fact", "instruction", "preference", "procedure", "note" or "episodic", '
                "not a text of 6 characters"
            ),
        ),
        (
            {"entity_id": "alice"},
            "entity_id: must have the form type:name, such as user:alice, without spaces, not a text of 5 characters",
        ),
        ({"type": "Rule"}, "type: must be 1 to 40 of a-z 0-9 _, not a text of 4 characters: character 1 is R"),
        ({"tags": ["kb.knowledge"]}, "tags.0: must not begin with kb., which is reserved: choose another name"),
        (
            {"content": "x" * 8_001, "embedding_text": "y"},
            (
                "content: must have at most 8,000 characters with an embedding_text, not 8,001: shorten it or leave "
                "embedding_text out"
            ),
        ),
    ],
)
def test_an_invalid_piece_is_skipped_with_a_reason(change: dict[str, Any], reason: str) -> None:
    read = read_import({**_DOCUMENT, "pieces": [{**_PIECE, **change}, {**_PIECE, "piece_id": "other"}]})
    assert [(each.section, each.index, each.id, each.reason) for each in read.skipped] == [
        ("pieces", 0, "les-init", reason)
    ]
    assert [item.value.piece_id for item in read.pieces] == ["other"]


def test_a_reason_quotes_neither_values_nor_names_of_the_author() -> None:
    secret = "sk-live-0123456789"
    document = {
        secret: [],
        "metadata": {
            f"{secret} {secret}": {"entity_type": secret, "properties": {secret: {secret: secret}}, secret: 1}
        },
        "pieces": [{"piece_id": f"{secret} ", "content": 5, "knowledge_type": secret, secret: secret}, secret],
        "graph": {secret: [], "nodes": secret, "edges": [{"source_id": f"{secret} "}]},
    }
    skipped = read_import(document).skipped
    assert len(skipped) == 7
    assert secret not in repr(skipped)


def test_only_the_first_item_with_an_identifier_is_read() -> None:
    read = read_import({"pieces": [_PIECE, {**_PIECE, "content": "Later."}]})
    assert [item.value.content for item in read.pieces] == ["Start from RANS."]
    assert [each.reason for each in read.skipped] == ["an earlier item of the document has the same identifier"]


def test_parts_that_are_unknown_or_of_another_type_are_reported() -> None:
    assert _reasons({"pieces": {}, "graph": {"nodes": 1, "vertices": []}, "entities": []}) == [
        "has an unknown part; the parts are metadata, pieces, graph",
        "has an unknown part; the parts are nodes, edges",
        "must be a list",
        "must be a list",
    ]


def test_a_piece_without_identifier_gets_the_same_one_each_time() -> None:
    ids = [KnowledgePiece(content="Likes tea.", knowledge_type="preference").piece_id for _ in range(2)]
    assert ids[0] == ids[1]
    assert ids[0] != KnowledgePiece(content="Likes tea.", knowledge_type="preference", entity_id="user:alice").piece_id


def test_a_knowledge_type_is_read_in_any_case() -> None:
    assert KnowledgePiece.model_validate({**_PIECE, "knowledge_type": "EpisodiC"}).knowledge_type == "episodic"


def test_an_edge_names_its_missing_nodes() -> None:
    (edge,) = read_import(_DOCUMENT).edges
    assert missing_nodes(edge.value, {"user:alice", "technique:les"}) is None
    assert (
        missing_nodes(edge.value, {"user:alice"}) == "there is no node technique:les; both nodes of an edge must exist"
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("metadata", "pieces", "graph", "more"), _JSON)))
def test_any_object_is_read_without_an_error(document: dict[str, Any]) -> None:
    read = read_import(document)
    loaded = len(read.entities) + len(read.pieces) + len(read.nodes) + len(read.edges)
    in_sections = [skipped for skipped in read.skipped if skipped.index is not None]
    assert loaded + len(in_sections) <= count_items(document)


@given(st.text())
def test_the_first_line_of_any_content_is_a_valid_title(content: str) -> None:
    KnowledgePiece(content="x", knowledge_type="note", title=first_line(content))
