import json
import re
import urllib.request
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kb_search.runs import answer_schema
from kb_search.runs.answer_schema import (
    MAX_SCHEMA_CHARACTERS,
    UnusableSchema,
    check_schema,
    find_violations,
)
from tests.counted_calls import count_calls

USUAL_STEP_S = 3e-6

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
FEW_STEPS = 10_000
MAX_CALLS_OF_STEP = 60
MORE_STEPS = "more than [0-9]+ steps"


def long_reference(levels: int) -> dict[str, Any]:
    """Definitions whose references name as many levels: the library looks at all pairs of them."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        deep = {"allOf": [deep]}
    return {"$defs": {"deep": deep, "a": {"$ref": "#/$defs/deep" + "/allOf/0" * levels}}}


@pytest.mark.parametrize(
    "schema",
    [
        LARGEST,
        {
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(600)},
            "required": [f"p{n}" for n in range(100)],
        },
        {"$defs": {"a": {"type": "string"}}, "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(600)}},
        {"enum": [f"word {n}" for n in range(1_200)]},
    ],
)
def test_a_schema_of_many_parts_is_taken(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        doubling(20),
        doubling(20, "anyOf"),
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **doubling(20)},
        {"allOf": [{}] * 4_000},
        # The schema of schemas compares each of these with each.
        {"type": [0, *([number] for number in range(2_500))]},
        {"allOf": [{"$ref": "#" + "/allOf/0" * 200}] * 50},
        {**doubling(20), "$defs": {**doubling(10)["$defs"], "d10": {"enum": [[number] for number in range(2_500)]}}},
    ],
)
def test_a_schema_that_would_take_for_ever_is_refused_and_makes_few_calls(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_schema, "MAX_STEPS", FEW_STEPS)

    def check() -> None:
        with pytest.raises(UnusableSchema):
            check_schema(schema)

    assert count_calls(check) < MAX_CALLS_OF_STEP * FEW_STEPS


@pytest.mark.parametrize(
    "schema",
    [
        long_reference(10) | {"allOf": [{"$ref": "#/$defs/a"}] * 500},
        {"allOf": [{"$ref": "#/$defs/a"}] * 500, "$defs": {"a": {"properties": {f"p{n}": True for n in range(30)}}}},
    ],
)
def test_what_a_schema_repeats_counts_each_time(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        long_reference(50) | {"allOf": [{"$ref": "#/$defs/a"}] * 700},
        {"allOf": [{"$ref": "#/$defs/a"}] * 500, "$defs": {"a": {"properties": {f"p{n}": True for n in range(600)}}}},
        {"allOf": [{"$ref": "#/$defs/a"}] * 100, "$defs": {"a": {"enum": [[[[[[n]]]]] for n in range(400)]}}},
    ],
)
def test_what_a_schema_repeats_is_refused_if_it_is_large(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema, match=MORE_STEPS):
        check_schema(schema)


NESTED_NAMES = {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 4}}}}}
NUMBERS = [[number] for number in range(50_000)]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (NESTED_NAMES, '{"a":' * 30 + "1" + "}" * 30),
        ({"items": {"anyOf": [{"enum": [[number] for number in range(2_000)]}, True]}}, json.dumps([["x"]] * 20_000)),
        # What a keyword reads of the answer counts, although the schema says little about it.
        ({"allOf": [{"items": True}] * 20}, json.dumps(NUMBERS)),
        ({"allOf": [{"items": {}}] * 4}, json.dumps(NUMBERS)),
        ({"allOf": [{"propertyNames": True}] * 20}, json.dumps({str(number): 0 for number in range(50_000)})),
        ({"allOf": [{"uniqueItems": True}] * 40}, json.dumps(["x" * 400_000])),
        # Each message repeats the answer.
        ({"anyOf": [{"type": "string"}] * 40}, json.dumps(["x" * 400_000])),
    ],
)
def test_an_answer_is_checked_with_few_calls_whatever_the_schema(
    schema: dict[str, Any], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_schema(schema)
    [violation] = find_violations(answer, schema)
    assert re.search(MORE_STEPS, violation)
    monkeypatch.setattr(answer_schema, "MAX_STEPS", FEW_STEPS)
    assert count_calls(lambda: find_violations(answer, schema)) < MAX_CALLS_OF_STEP * FEW_STEPS


def test_a_large_answer_of_many_parts_is_right_or_wrong_by_its_parts() -> None:
    schema = {
        "type": "array",
        "uniqueItems": True,
        "items": {
            "type": "object",
            "properties": {f"p{n}": {"type": "string", "maxLength": 20} for n in range(8)},
            "required": [f"p{n}" for n in range(8)],
            "additionalProperties": False,
        },
    }
    rows = [{f"p{n}": f"text {row} of {n}" for n in range(8)} for row in range(3_000)]
    check_schema(schema)
    assert find_violations(json.dumps(rows), schema) == []
    rows[-1]["p7"] = "x" * 21
    assert [each.partition(":")[0] for each in find_violations(json.dumps(rows), schema)] == ["$[2999].p7"]


def machine_of(monkeypatch: pytest.MonkeyPatch, *, step_s: float) -> None:
    clock = count()
    monkeypatch.setattr("kb_search.runs.answer_schema.time.thread_time", lambda: next(clock) * step_s)


def test_a_machine_that_is_twenty_times_slower_takes_the_same_schemas_and_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine_of(monkeypatch, step_s=20 * USUAL_STEP_S)
    check_schema(LARGEST)
    assert find_violations(json.dumps(["x"] * 50_000), {"items": {"type": "string"}}) == []
    with pytest.raises(UnusableSchema, match=MORE_STEPS):
        check_schema(doubling(20))


def test_a_check_whose_steps_take_far_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch, step_s=1_000 * USUAL_STEP_S)
    with pytest.raises(UnusableSchema, match="steps"):
        check_schema(LARGEST)


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
