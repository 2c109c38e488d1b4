import json
import time
import urllib.request
from functools import cache
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kb_search.runs.answer_schema import MAX_CPU_S, MAX_SCHEMA_CHARACTERS, UnusableSchema, check_schema, find_violations

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no-such-type"},
        {"type": "string", "pattern": "(a+)+$"},
        {"properties": {"a": {"patternProperties": {"^a": {}}}}},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#"},
        {"$ref": "#/$defs/missing"},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"unevaluatedProperties": False},
        {"description": "x" * MAX_SCHEMA_CHARACTERS},
        {"x": {"properties": {"pattern": "(a+)+$"}}, "$ref": "#/x/properties"},
    ],
)
def test_a_schema_that_could_not_be_checked_safely_is_not_taken(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema):
        check_schema(schema)


def doubling(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """Definitions that each refer to the next one twice."""
    twice = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": {"type": "object"}}}


LARGEST = {"anyOf": [{"type": "string", "minLength": 1}] * 500}
"""Schema of as many keywords as fit."""


@cache
def cpu_s_of_largest() -> float:
    began = time.thread_time()
    check_schema(LARGEST)
    return time.thread_time() - began


@pytest.mark.parametrize(
    "schema",
    [
        doubling(20),
        doubling(20, "anyOf"),
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **doubling(20)},
        # The schema of schemas compares each of these with each.
        {"type": [0, *([number] for number in range(2_500))]},
        {"allOf": [{"$ref": "#" + "/allOf/0" * 200}] * 50},
        {**doubling(20), "$defs": {**doubling(10)["$defs"], "d10": {"enum": [[number] for number in range(2_500)]}}},
    ],
)
def test_a_schema_that_would_take_for_ever_is_refused_and_costs_no_more_than_one_that_is_taken(
    schema: dict[str, Any],
) -> None:
    largest = cpu_s_of_largest()
    began = time.thread_time()
    with pytest.raises(UnusableSchema):
        # The steps must end it, long before the limit of CPU time does.
        check_schema(schema, max_cpu_s=30 * largest)
    assert time.thread_time() - began < 6 * largest


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 4}}}},
            },
            '{"a":' * 30 + "1" + "}" * 30,
        ),
        ({"type": "array", "uniqueItems": True}, json.dumps([0, *([number] for number in range(20_000))])),
        ({"items": {"enum": [[number] for number in range(2_500)]}}, json.dumps([["x"]] * 20_000)),
    ],
)
def test_an_answer_is_checked_in_time_whatever_the_schema(schema: dict[str, Any], answer: str) -> None:
    check_schema(schema)
    began = time.thread_time()
    find_violations(answer, schema)
    assert time.thread_time() - began < 3 * MAX_CPU_S


def test_no_schema_makes_the_service_ask_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda *args, **_: asked.append(args))
    with pytest.raises(UnusableSchema):
        check_schema({"x": {"properties": {"$ref": "http://127.0.0.1/x"}}, "$ref": "#/x/properties"})
    assert not asked


def test_items_that_must_be_unique_are() -> None:
    schema = {"type": "array", "uniqueItems": True}
    check_schema(schema)
    assert find_violations('[1, true, "1", {"a": 1, "b": 2}, {"b": 2}]', schema) == []
    assert find_violations('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', schema) == ["$: has elements that are not unique"]


class AnswerPart(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    parts: list["AnswerPart"] = []


class Machine(BaseModel):
    kind: Literal["pump", "valve"]
    tags: set[str]
    part: AnswerPart
    spare: AnswerPart | None = None


def test_schemas_with_definitions_that_refer_to_themselves_are_taken() -> None:
    schema = Machine.model_json_schema()
    check_schema(schema)
    check_schema({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    part: dict[str, Any] = {"name": "x", "parts": [{"name": "y", "parts": []}]}
    machine = {"kind": "pump", "tags": ["a"], "part": part}
    assert find_violations(json.dumps(machine), schema) == []
    part["parts"][0]["name"] = ""
    assert [each.partition(":")[0] for each in find_violations(json.dumps(machine), schema)] == ["$.part.parts[0].name"]


def test_a_violation_at_a_name_with_unpaired_surrogates_is_valid_text() -> None:
    [wrong] = find_violations(r'{"\ud83d": 1}', {"additionalProperties": {"type": "string"}})
    assert wrong.encode().decode() == wrong


def test_a_number_too_large_to_divide_breaks_nothing() -> None:
    assert find_violations("1" + "0" * 400, {"multipleOf": 0.5}) == ["the answer can't be checked against the schema"]


def test_a_property_may_be_called_pattern() -> None:
    check_schema({"type": "object", "properties": {"pattern": {"type": "string"}}})
    check_schema({"$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}})


def test_a_violation_names_its_place() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}
    found = find_violations('{"a": "x"}', schema)
    assert sorted(each.partition(":")[0] for each in found) == ["$", "$.a"]
    assert find_violations('{"a": 1, "b": null}', schema) == []
    assert find_violations("{", schema) == ["the answer is not JSON"]


@given(JSON.filter(lambda value: isinstance(value, dict)), JSON)
def test_any_schema_is_taken_or_refused_and_any_answer_is_checked(schema: dict[str, Any], answer: Any) -> None:
    try:
        check_schema(schema)
    except UnusableSchema:
        return
    find_violations(json.dumps(answer), schema)
