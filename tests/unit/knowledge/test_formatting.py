"""The same knowledge gives the same bytes, in whatever order it was found."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.knowledge.knowledge_formatter import KnowledgeFormatter
from kb_contracts.knowledge.merging import graph_score, merge_pieces, merge_relations
from kb_contracts.knowledge.plain_text import format_value
from kb_contracts.knowledge.prompt_template import DEFAULT_TEMPLATE, fill_template
from kb_contracts.knowledge.retrieval import GraphRelation, RetrievalResult, RetrievedPiece
from kb_contracts.knowledge.routing import format_sections
from kb_contracts.metadata import DateValue
from tests.unit.knowledge import states

GOLDEN: Final = Path(__file__).parent / "golden"
FIRST_PIECE_ONLY: Final = RetrievalResult(metadata=states.METADATA, pieces=[states.PROCEDURE])


def shuffled(result: RetrievalResult, random: Random) -> RetrievalResult:
    """Return the result with all its parts in another order."""
    parts: dict[str, Any] = {}
    for name in ("metadata", "global_metadata"):
        entries = list(getattr(result, name).items())
        parts[name] = dict(random.sample(entries, len(entries)))
    parts["pieces"] = random.sample(result.pieces, len(result.pieces))
    parts["graph_context"] = [
        relation.model_copy(update={"properties": dict(reversed(relation.properties.items()))})
        for relation in random.sample(result.graph_context, len(result.graph_context))
    ]
    return result.model_copy(update=parts)


def test_the_complete_output_has_the_bytes_of_the_golden_file_a_hundred_times() -> None:
    expected = (GOLDEN / "all_layers.txt").read_bytes()
    random = Random(7)
    outputs = {KnowledgeFormatter()(shuffled(states.ALL_LAYERS, random)).encode() for _ in range(100)}
    assert outputs == {expected}


def test_the_routed_sections_have_the_texts_of_the_golden_file() -> None:
    assert json.dumps(format_sections(FIRST_PIECE_ONLY)) == (GOLDEN / "routed.json").read_text()


def test_the_routed_sections_of_more_state_have_the_texts_of_the_golden_file() -> None:
    note = RetrievedPiece(
        piece_id="nodes", content="Runs on 64 nodes", knowledge_type="note", info_type="context", score=0.1
    )
    skill = RetrievedPiece(
        piece_id="mesh", content="Meshing with 2 % growth", knowledge_type="procedure", info_type="skills", score=0.1
    )
    part_of = GraphRelation(relation_type="PART_OF", target_node_id="method:cfd", target_type="method", depth=2)
    more = states.ALL_LAYERS.model_copy(
        update={
            "pieces": [note, skill, *states.ALL_LAYERS.pieces],
            "graph_context": [part_of, *states.ALL_LAYERS.graph_context],
        }
    )
    sections = format_sections(more)
    assert (
        json.dumps(sections, indent=2, ensure_ascii=False) + "\n"
        == (GOLDEN / "routed_with_more_state.json").read_text()
    )


def test_the_filled_template_has_the_bytes_of_the_golden_file() -> None:
    values = {**format_sections(FIRST_PIECE_ONLY), "user_input": "Start an LES."}
    assert fill_template(DEFAULT_TEMPLATE, values) == (GOLDEN / "prompt.txt").read_text()


@given(states.results, st.randoms(use_true_random=False))
def test_the_order_of_input_never_matters(result: RetrievalResult, random: Random) -> None:
    other = shuffled(result, random)
    formatter = KnowledgeFormatter(include_scores=True)
    assert formatter(other) == formatter(result)
    assert list(format_sections(other).items()) == list(format_sections(result).items())
    assert merge_relations(other.graph_context) == merge_relations(result.graph_context)


@given(st.lists(states.pieces), st.lists(states.pieces))
def test_merging_keeps_each_piece_once_with_its_highest_score(
    one: list[RetrievedPiece], other: list[RetrievedPiece]
) -> None:
    merged = merge_pieces(one, other)
    assert merged == merge_pieces(other, one) == merge_pieces(merged) == merge_pieces(merged, one)
    assert {piece.piece_id: piece.score for piece in merged} == {
        piece_id: max(piece.score for piece in (*one, *other) if piece.piece_id == piece_id)
        for piece_id in {piece.piece_id for piece in (*one, *other)}
    }
    assert [(-piece.score, piece.piece_id) for piece in merged] == sorted(
        (-piece.score, piece.piece_id) for piece in merged
    )


@given(states.results)
def test_each_part_of_a_result_is_in_exactly_one_section(result: RetrievalResult) -> None:
    marked = result.model_copy(
        update={
            "metadata": {f"m{n}": n for n, _ in enumerate(result.metadata)},
            "global_metadata": {f"g{n}": n for n, _ in enumerate(result.global_metadata)},
            "pieces": [
                piece.model_copy(update={"content": f"piece {piece.piece_id}."})
                for piece in merge_pieces(result.pieces)
            ],
        }
    )
    together = "\n".join(format_sections(marked).values())
    for key in (*marked.metadata, *marked.global_metadata):
        assert together.count(f"{key}: ") == 1
    for piece in marked.pieces:
        assert together.count(piece.content) == 1


def test_the_score_of_a_linked_piece_falls_with_the_depth() -> None:
    assert [graph_score(depth) for depth in (1, 2, 4)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (0.1, "0.1"),
        (2.0, "2.0"),
        (1e22, "1e+22"),
        ("yes: no", "yes: no"),
        (DateValue(date=datetime(2026, 1, 31, tzinfo=UTC)), "2026-01-31T00:00:00Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC), "2026-01-31T12:00:00.500000Z"),
        (date(2026, 1, 31), "2026-01-31"),
    ],
)
def test_a_value_is_written_as_json_writes_it_and_a_date_in_iso_8601(value: Any, text: str) -> None:
    assert format_value(value) == text


def test_options_change_delimiters_tags_and_scores() -> None:
    result = states.ALL_LAYERS.model_copy(update={"graph_context": [], "metadata": {}})
    formatter = KnowledgeFormatter(
        section_delimiter="\n==\n", item_delimiter=" | ", include_tags=False, include_scores=True
    )
    assert formatter(result) == (
        "[Global Metadata]\norganization: NASA\n==\n[Knowledge]\n"
        f"[procedure] {states.PROCEDURE.content}\n  Score: 1.0 | [fact] {states.FACT.content}\n  Score: 0.5"
    )


def test_nothing_retrieved_gives_an_empty_text_and_no_sections() -> None:
    assert KnowledgeFormatter()(RetrievalResult()) == ""
    assert format_sections(RetrievalResult()) == {}


def test_an_edge_whose_piece_was_deleted_is_routed_like_one_without_a_piece() -> None:
    near = states.USES.model_copy(update={"piece_id": "deleted"})
    far = near.model_copy(update={"depth": 2})
    assert list(format_sections(RetrievalResult(graph_context=[near]))) == ["user_profile"]
    assert list(format_sections(RetrievalResult(graph_context=[far]))) == ["context"]


def test_metadata_go_to_the_chosen_section() -> None:
    assert format_sections(FIRST_PIECE_ONLY, metadata_info_type="about")["about"].startswith("specialization:")
