"""What is shown of the strings of an answer by a schema."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs.addresses import find_addresses, neutralize_addresses
from kb_search.runs.json_strings import JsonStreamCleaner, clean_json

KNOWN = find_addresses(["https://known.example/a"])
CLEAN = partial(neutralize_addresses, known=KNOWN)
TEXTS = st.lists(
    st.sampled_from(
        ["https://evil.example/", "https://known.example/a", "![x](", ")", '"', "\\", "<a b=", " ", "é", "\n"]
    )
).map("".join)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def cleaned(value: Any) -> Any:
    match value:
        case str():
            return neutralize_addresses(value, KNOWN)
        case list():
            return [cleaned(each) for each in value]
        case dict():
            return {neutralize_addresses(name, KNOWN): cleaned(each) for name, each in value.items()}
    return value


@given(VALUES, st.booleans(), st.data())
def test_every_string_is_cleaned_and_nothing_else_whatever_pieces_it_comes_in(
    value: Any, ascii_only: bool, data: st.DataObject
) -> None:
    answer = json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=5)))
    pieces = [answer[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    stream = JsonStreamCleaner(CLEAN)
    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert shown == clean_json(answer, CLEAN)
    assert json.loads(shown) == cleaned(value)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{ "a" : 1.50e3,\n"b":"x"}', '{ "a" : 1.50e3,\n"b":"x"}'),
        (r'["\u0068ttps://evil.example"]', '["https[:]//evil.example"]'),
        (r'["\ud800 https://evil.example"]', r'["\ud800 https[:]//evil.example"]'),
        (r'["https:\/\/known.example\/a"]', r'["https:\/\/known.example\/a"]'),
        # No JSON, so it will be refused, but it has been shown already.
        ('["https://evil.example', '["https[:]//evil.example'),
        # Nor is this, which leads away between strings.
        ('{"a": ![x](https://evil.example) "b"}', '{"a": ![x] (https[:]//evil.example) "b"}'),
        (r'["\x https://evil.example"]', r'["\x https[:]//evil.example"]'),
        ('["a\nhttps://evil.example"]', r'["a\nhttps[:]//evil.example"]'),
    ],
)
def test_json_between_strings_stays_unchanged(written: str, shown: str) -> None:
    assert clean_json(written, CLEAN) == shown
