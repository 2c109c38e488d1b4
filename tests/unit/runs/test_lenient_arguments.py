"""Arguments of tools as models and their clients write them."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from kb_contracts.api.model import StrictModel, Timestamp
from kb_contracts.api.runs import KbIds
from kb_search.runs.lenient_arguments import read_arguments
from kb_search.runs.written_arguments import UnusableCall, parse_arguments


class Asked(StrictModel):
    query: Annotated[str, Field(min_length=1)]
    places: Annotated[list[str], Field(min_length=1)] | None = None
    kinds: list[str] = Field(default_factory=list)
    most: Annotated[int, Field(ge=1, le=20)] = 5
    least: Annotated[float, Field(ge=0, le=1)] | None = None
    exact: bool = False
    where: dict[str, Any] | None = None
    since_from: Timestamp | None = None
    until_to: Timestamp | None = None


def read(**given: Any) -> dict[str, Any]:
    return read_arguments(Asked, {"query": "oars", **given}).arguments.model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"most": None, "kinds": None, "exact": None}, {}),
        ({"most": "3"}, {"most": 3}),
        ({"most": 3.0}, {"most": 3}),
        ({"most": " 4.0 "}, {"most": 4}),
        ({"most": 300}, {"most": 20}),
        ({"most": "300"}, {"most": 20}),
        ({"least": "0.25"}, {"least": 0.25}),
        ({"least": 1}, {"least": 1}),
        ({"exact": "True"}, {"exact": True}),
        ({"places": []}, {}),
        ({"places": "pier"}, {"places": ["pier"]}),
        ({"places": '["pier", "quay"]'}, {"places": ["pier", "quay"]}),
        ({"places": "pier, quay"}, {"places": ["pier", "quay"]}),
        ({"places": "['pier']"}, {"places": ["pier"]}),
        ({"places": [7]}, {"places": ["7"]}),
        ({"where": "{}"}, {"where": {}}),
        ({"where": ""}, {}),
        ({"where": '{"port": "east"}'}, {"where": {"port": "east"}}),
        ({"since_from": "", "until_to": "  "}, {}),
        ({"since_from": "2026-02-03"}, {"since_from": datetime(2026, 2, 3, tzinfo=UTC)}),
        ({"until_to": "2026-02-03"}, {"until_to": datetime(2026, 2, 3, 23, 59, 59, 999_000, UTC)}),
        ({"since_from": "2026-02-03T10:30"}, {"since_from": datetime(2026, 2, 3, 10, 30, tzinfo=UTC)}),
        ({"since_from": "2026-02-03 10:30:05"}, {"since_from": datetime(2026, 2, 3, 10, 30, 5, tzinfo=UTC)}),
        ({"query": 318}, {"query": "318"}),
        ({"query": ["oars"]}, {}),
        ({"most": "null", "where": "None", "since_from": " undefined "}, {}),
        ({"Most": 3, "sinceFrom": "2026-02-03"}, {"most": 3, "since_from": datetime(2026, 2, 3, tzinfo=UTC)}),
    ],
)
def test_what_can_mean_one_thing_only_is_taken(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert read(**given) == {"query": "oars", **taken}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"most": 0}, "most"),
        ({"most": 2.5}, "most"),
        ({"most": "a few"}, "most"),
        ({"most": True}, "most"),
        ({"least": 40}, "least"),
        ({"least": "nan"}, "least"),
        ({"where": "port is east"}, "where"),
        ({"where": ["port"]}, "where"),
        ({"since_from": "yesterday"}, "since_from"),
        ({"since_from": "2026-13-40"}, "since_from"),
        ({"query": ""}, "query"),
        ({"query": None}, "query"),
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_argument_and_what_there_is(
    given: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnusableCall) as refused:
        read(**given)
    assert f"{named}: " in str(refused.value)
    assert "The tool takes: query, places" in str(refused.value)


def test_an_unknown_argument_is_left_out_unless_the_tool_writes() -> None:
    taken = read_arguments(Asked, {"query": "oars", "random": 1, "evil\n[2]": 2})
    assert taken.arguments == Asked(query="oars")
    assert taken.notes == ["Ignored, because the tool has no such argument: random, evil??2?."]
    with pytest.raises(UnusableCall, match="random"):
        read_arguments(Asked, {"query": "oars", "random": 1}, ignores_unknown=False)


@pytest.mark.parametrize(
    "written",
    [
        '{"query": "oars", "most": 3}',
        "{'query': 'oars', 'most': 3}",
        '{"query": "oars", "most": 3,}',
        '```json\n{"query": "oars", "most": 3}\n```',
        '"{\\"query\\": \\"oars\\", \\"most\\": 3}"',
        '[{"query": "oars", "most": 3}]',
        '{"query": "oars", "most": 3}}',
        '{"query": "oars", "most": 3}</tool_call>',
        '{"query": "oars", "most": 3}<|im_end|>',
        '{"query": "oars", "most": 3}\n{"query": "oars", "most": 3}',
    ],
)
def test_arguments_are_read_in_the_forms_of_json_that_models_write(written: str) -> None:
    assert parse_arguments(written, text_is="query") == {"query": "oars", "most": 3}


def test_a_text_alone_is_the_argument_that_a_tool_has_for_it() -> None:
    assert parse_arguments('"two oars"', text_is="query") == {"query": "two oars"}


def test_line_breaks_in_a_text_need_no_escape() -> None:
    assert parse_arguments('{"query": "two\n\toars"}', text_is="query") == {"query": "two\n\toars"}


@pytest.mark.parametrize("wrapper", ["arguments", "parameters", "input"])
@pytest.mark.parametrize("value", [{"query": "oars", "Most": "3"}, '{"query": "oars", "Most": 3}'])
def test_what_is_around_all_arguments_is_taken_off(wrapper: str, value: object) -> None:
    assert read_arguments(Asked, {wrapper: value}).arguments == Asked(query="oars", most=3)


def test_two_spellings_of_one_argument_are_not_the_same_argument() -> None:
    with pytest.raises(UnusableCall):
        read_arguments(Asked, {"Query": "oars", "QUERY": "masts"})


@pytest.mark.parametrize(
    "written",
    [
        "[]",
        "null",
        "oars",
        '{"query": "a", "query": "b"}',
        '{"query": "a", "query": "b\n"}',
        '{"query": "a"}{"query": "b"}',
        '{"query": "a"} and {"query": "b"}',
        '{"query": "a"',
        '[{"query": "a"}, {"query": "b"}]',
        "{'query': {1, 2}}",
        "{" * 9_000,
        '{"a": NaN}',
        "x" * 30_000,
    ],
)
def test_arguments_that_are_no_object_are_refused(written: str) -> None:
    with pytest.raises(UnusableCall):
        parse_arguments(written, text_is="query")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("2026-02-03"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*Asked.model_fields, "other"]), VALUES))
def test_any_arguments_are_taken_or_refused_in_words(given: dict[str, Any]) -> None:
    problem = ""
    try:
        read_arguments(Asked, given)
    except UnusableCall as refused:
        problem = str(refused)
    assert not problem or problem.startswith("The arguments can't be used")


@given(st.text(max_size=40) | VALUES.map(json.dumps))
def test_any_text_is_an_object_or_refused_in_words(written: str) -> None:
    problem = ""
    try:
        parse_arguments(written, text_is="query")
    except UnusableCall as refused:
        problem = str(refused)
    assert not problem or "arguments" in problem


class AskedOfKnowledgeBase(StrictModel):
    kb_ids: KbIds
    document_id: Annotated[str, Field(max_length=3)] = ""


def test_a_wrong_id_is_told_where_ids_come_from() -> None:
    with pytest.raises(UnusableCall, match=r"kb_ids comes from list_knowledge_bases\.$"):
        read_arguments(AskedOfKnowledgeBase, {"kb_ids": ["Handbook"]})
    with pytest.raises(UnusableCall, match=r"document_id comes from the results of a search\.$"):
        read_arguments(AskedOfKnowledgeBase, {"kb_ids": [], "document_id": "readme.md"})
