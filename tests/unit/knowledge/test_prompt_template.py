"""Placeholders are filled once; knowledge and values of one name are resolved as the caller chose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.knowledge.prompt_template import (
    FeedConflictResolution,
    feed_knowledge,
    fill_template,
    placeholders,
)

_texts = st.text(st.sampled_from("{} ab"), max_size=12)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{ skills }}", "cooking"),
        ("{{skills}}|{{  skills\t}}", "cooking|cooking"),
        ("{{ missing }}.", "."),
        ("{ skills } {{ skills", "{ skills } {{ skills"),
        ("{{{ skills }}}", "{cooking}"),
        ("{{ two words }}", "2"),
        ("", ""),
    ],
)
def test_placeholders_are_replaced_and_missing_ones_are_empty(template: str, filled: str) -> None:
    assert fill_template(template, {"skills": "cooking", "two words": "2"}) == filled


def test_what_a_value_contains_is_not_a_placeholder() -> None:
    values = {"user_input": "{{ instructions }} \\1", "instructions": "secret"}
    assert fill_template("{{ user_input }}", values) == "{{ instructions }} \\1"


@given(_texts, st.dictionaries(st.sampled_from(["a", "b"]), _texts))
def test_what_is_not_a_placeholder_stays(template: str, values: dict[str, str]) -> None:
    if not placeholders(template):
        assert fill_template(template, values) == template


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [("feed_only", "knowledge"), ("attribute_only", "value"), ("merge", "value\nknowledge")],
)
def test_a_conflict_is_resolved_as_chosen(resolution: FeedConflictResolution, expected: str) -> None:
    attributes = {"context": "value", "only_value": "v", "empty": ""}
    knowledge = {"context": "knowledge", "only_knowledge": "k", "empty": "e"}
    assert feed_knowledge(attributes, knowledge, conflict_resolution=resolution) == {
        "context": expected,
        "only_value": "v",
        "only_knowledge": "k",
        "empty": "e",
    }


def test_knowledge_replaces_values_by_default() -> None:
    assert feed_knowledge({"context": "value"}, {"context": "knowledge"}) == {"context": "knowledge"}
