"""Answers that are JSON: violations are at the values that violate the schema, and nothing of a model is markup."""

import json
from html.parser import HTMLParser
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_console.chat.answer_markup import render_answer
from kb_console.chat.json_answers import parse_json_answer, read_violation
from kb_search.runs.answer_schema import find_violations
from tests.console.payloads import PAYLOADS

TEXTS = (
    st.sampled_from(PAYLOADS) | st.text() | st.sampled_from(["a'b", "a\\", "a.b[0]", "x: y", "\ud800", "\u202e", ""])
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Rendered(HTMLParser):
    """Splits markup into its tags, the text without notes, and what is marked with the notes behind it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.marked: list[tuple[str, list[str]]] = []
        self._inside: list[str] = []
        self.feed(str(markup))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {f"{name}={value}" for name, value in attrs}
        self._inside.append(tag)
        if tag == "mark":
            self.marked.append(("", []))
        elif tag == "span":
            self.marked[-1][1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if "span" in self._inside:
            self.marked[-1][1][-1] += data
            return
        self.text += data
        if "mark" in self._inside:
            text, notes = self.marked[-1]
            self.marked[-1] = (text + data, notes)


def render(value: Any, violations: list[str]) -> Rendered:
    return Rendered(render_answer(json.dumps(value), {}, lambda _: "/", violations=violations))


@given(value=st.dictionaries(TEXTS, VALUES, max_size=4), data=st.data())
def test_only_marks_and_notes_are_added_to_what_a_model_wrote(value: dict[str, Any], data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.tuples(st.sampled_from(list(_paths(value))), TEXTS), max_size=5))
    violations = [f"{jsonschema.ValidationError('', path=path).json_path}: {text}" for path, text in paths]
    rendered = render(value, violations)
    assert rendered.tags <= {"pre", "bdi", "mark", "span"}
    assert rendered.attributes <= {"class=json", "class=violation", "class=problem note"}
    assert rendered.text == json.dumps(parse_json_answer(json.dumps(value)), ensure_ascii=False, indent=2)
    assert sum(len(notes) for _, notes in rendered.marked) == len(violations)
    rendered.text.encode()


@given(path=st.lists(TEXTS | st.integers(0, 999_999_999), max_size=5), message=TEXTS)
def test_the_path_of_a_violation_is_read_as_it_was_written(path: list[str | int], message: str) -> None:
    found = read_violation(f"{jsonschema.ValidationError('', path=path).json_path}: {message}")
    assert found is not None
    assert (found.path, found.message) == (tuple(path), message)


SCHEMA = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "months": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
}


def test_a_value_is_marked_where_it_violates_and_an_object_where_it_lacks_something() -> None:
    answer = {"months": "three", "items": [{"name": "a"}, {"price": 3}]}
    rendered = render(answer, list(find_violations(json.dumps(answer), SCHEMA)))
    assert rendered.marked == [
        ("{", [" ← 'total' is a required property"]),
        ('"three"', [" ← 'three' is not of type 'integer'"]),
        ("{", [" ← 'name' is a required property"]),
    ]
    assert rendered.text.index("{") == 0
    [second] = [line for line in rendered.text.splitlines() if "three" in line]
    assert second.strip() == '"months": "three",', "the comma is that of the answer"


@pytest.mark.parametrize(
    ("violation", "marked"),
    [
        ("$.a.gone: x", [("{", [" ← x"])]),
        ("$.a[7]: x", [("{", [" ← x"])]),
        ("$.a['a name that was cut of", [("{", [" ← $.a['a name that was cut of"])]),
        ("the answer is not JSON", []),
    ],
)
def test_a_path_that_leads_nowhere_is_marked_as_far_as_it_leads(violation: str, marked: list[Any]) -> None:
    assert render({"b": 1, "a": {"c": 2}}, [violation]).marked == marked


def test_json_that_is_nested_too_deeply_or_not_finished_is_shown_as_it_is() -> None:
    deep = '{"a":' * 900 + "{}" + "}" * 900
    assert len(render_answer(deep, {}, lambda _: "/")) < 100_000
    cut = '{"a": "<b>'
    assert render_answer(cut, {}, lambda _: "/") == '<pre class="json"><bdi>{&#34;a&#34;: &#34;&lt;b&gt;</bdi></pre>'


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in steps:
        yield from _paths(each, (*path, step))
