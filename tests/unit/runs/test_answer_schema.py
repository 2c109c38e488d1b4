import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs.answer_schema import MAX_SCHEMA_CHARACTERS, UnusableSchema, check_schema, violations

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
        {"description": "x" * MAX_SCHEMA_CHARACTERS},
    ],
)
def test_a_schema_that_could_not_be_checked_safely_is_not_taken(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema):
        check_schema(schema)


def test_a_property_may_be_called_pattern() -> None:
    check_schema({"type": "object", "properties": {"pattern": {"type": "string"}}})
    check_schema({"$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}})


def test_what_is_wrong_is_said_with_its_place() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}
    found = violations('{"a": "x"}', schema)
    assert sorted(each.partition(":")[0] for each in found) == ["$", "$.a"]
    assert violations('{"a": 1, "b": null}', schema) == []
    assert violations("{", schema) == ["the answer is not JSON"]


@given(JSON.filter(lambda value: isinstance(value, dict)), JSON)
def test_any_schema_is_taken_or_refused_and_any_answer_is_checked(schema: dict[str, Any], answer: Any) -> None:
    try:
        check_schema(schema)
    except UnusableSchema:
        return
    violations(json.dumps(answer), schema)
