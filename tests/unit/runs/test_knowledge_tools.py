"""What a model may ask of a tool."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.authoring.agent_tools import MAX_NAME, default_tool_name
from kb_search.runs.knowledge_tools import KnowledgeTool, build_search_parameters, describe_prompts_tool, parse_call
from kb_search.runs.written_arguments import UnusableCall
from kb_shared.chat.completion import ToolCall

TOOL = KnowledgeTool("search", "Search", ["kb1"], default_top_k=3, min_score=0.5)
TOOLS = {"search": TOOL}


def call(arguments: str, name: str = "search") -> ToolCall:
    return ToolCall("1", name, arguments)


def test_a_call_is_a_query_of_the_tools_own_kbs_with_its_defaults() -> None:
    asked = parse_call(call('{"query": "x"}'), TOOLS)
    assert (asked.tool.kb_ids, asked.query.text, asked.query.top_k, asked.query.min_score) == (["kb1"], "x", 3, 0.5)


@pytest.mark.parametrize("min_score", [0, 0.3, 0.9, 1])
def test_a_model_may_lower_and_raise_the_least_relevance(min_score: float) -> None:
    assert parse_call(call(json.dumps({"query": "x", "min_score": min_score})), TOOLS).query.min_score == min_score
    assert parse_call(call('{"query": "x", "min_score": null}'), TOOLS).query.min_score == TOOL.min_score


def test_a_model_is_shown_a_filter_only_with_keys_that_it_can_compare() -> None:
    assert list(TOOL.describe()["function"]["parameters"]["properties"]) == ["query", "top_k"]
    tool = KnowledgeTool("search", "Search", ["kb1"], filterable_metadata=["shift", "port"])
    properties = tool.describe()["function"]["parameters"]["properties"]
    assert list(properties) == ["query", "top_k", "metadata_filter"]
    assert "Keys: shift, port;" in properties["metadata_filter"]["description"]
    assert "2025" not in properties["metadata_filter"]["description"], "models copy values"


def test_the_tool_of_a_run_says_what_its_knowledge_bases_contain() -> None:
    described = describe_prompts_tool(["Rules of\nthe pier", "", "x" * 2_000])
    assert "It contains: Rules of the pier xxx" in described
    assert len(described) == 1_000
    assert "contains" not in describe_prompts_tool([" "])


def test_a_definition_for_programs_names_the_least_relevance_beside_the_number_of_passages() -> None:
    properties = build_search_parameters(5, 0.5)["properties"]
    assert list(properties)[1:3] == ["top_k", "min_score"]
    assert (properties["min_score"]["minimum"], properties["min_score"]["maximum"]) == (0, 1)
    assert "0.5 by default" in properties["min_score"]["description"]
    assert "none by default" in build_search_parameters(5)["properties"]["min_score"]["description"]


@pytest.mark.parametrize(
    "arguments",
    [
        "{not json",
        "[]",
        "{}",
        '{"query": ""}',
        '{"query": "x", "min_score": -0.1}',
        '{"query": "x", "min_score": 1.1}',
        '{"query": "x", "top_k": 0}',
        '{"query": "x", "top_k": "many"}',
        '{"query": "x", "metadata_filter": "last year"}',
        '{"query": "x", "query": "y"}',
        '{"query": "x", "upload_date_from": "yesterday"}',
        '{"query": "' + "x" * 30_000 + '"}',
    ],
)
def test_arguments_that_a_tool_does_not_take_are_refused_with_what_is_wrong(arguments: str) -> None:
    with pytest.raises(UnusableCall):
        parse_call(call(arguments), TOOLS)


@pytest.mark.parametrize("name", ["kb_id", "kb_ids", "organization_id", "max_iterations"])
def test_an_argument_that_a_tool_does_not_have_changes_nothing_and_the_model_is_told(name: str) -> None:
    asked = parse_call(call(json.dumps({"query": "x", name: ["other"]})), TOOLS)
    assert (asked.tool.kb_ids, asked.query) == (["kb1"], parse_call(call('{"query": "x"}'), TOOLS).query)
    assert name in asked.notes[0]


@pytest.mark.parametrize("name", ["functions.search", "Search", " search"])
def test_the_name_of_a_tool_is_known_in_the_forms_of_models(name: str) -> None:
    assert parse_call(call('{"query": "x"}', name), TOOLS).tool is TOOL


def test_a_call_knows_whether_it_searches_only_a_part() -> None:
    limited = parse_call(call('{"query": "x", "upload_date_from": "2026-02-03"}'), TOOLS)
    assert (limited.is_filtered, parse_call(call('{"query": "x"}'), TOOLS).is_filtered) == (True, False)


def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnusableCall, match="Available tools: search"):
        parse_call(call('{"query": "x"}', "drop_database"), TOOLS)


@given(st.text())
def test_any_other_text_as_arguments_is_an_unusable_call(arguments: str) -> None:
    with pytest.raises(UnusableCall):
        parse_call(call(arguments), TOOLS)


def test_calls_that_ask_the_same_have_the_same_key() -> None:
    one, same, other = (
        parse_call(call(json.dumps(each)), TOOLS).key
        for each in ({"query": "x"}, {"top_k": 3, "query": " x "}, {"query": "x", "top_k": 4})
    )
    assert one == same != other


@given(st.text(min_size=1), st.lists(st.text(max_size=3), max_size=3))
def test_a_quick_name_is_safe_and_its_own(kb_name: str, others: list[str]) -> None:
    taken: set[str] = set()
    for name in (kb_name, kb_name, *others):
        made = default_tool_name(name, taken)
        assert made not in taken
        assert len(made) <= MAX_NAME
        assert made.isascii()
        assert made.startswith("search")
        assert all(character.islower() or character.isdigit() or character == "_" for character in made)
        taken.add(made)


def test_a_quick_name_says_the_kbs() -> None:
    assert default_tool_name("Permissive libraries", set()) == "search_permissive_libraries"
