import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs.json_path import select_path

RESULT = {"passages": [{"id": "[1]", "text": "A fence."}, {"id": "[2]"}], "omitted_count": 0, "none": None}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("$.passages[0].text", "A fence."),
        ("$.omitted_count", "0"),
        ("$.passages[1]", '{"id": "[2]"}'),
        ("$.passages[2].text", ""),
        ("$.passages.text", ""),
        ("$.nothing", ""),
        ("$.none", ""),
        ("$[0]", ""),
    ],
)
def test_a_path_selects_what_is_there_and_otherwise_nothing(path: str, selected: str) -> None:
    assert select_path(RESULT, path) == selected


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_the_root_is_the_whole_value(value: object) -> None:
    selected = select_path(value, "$")
    assert selected == (
        value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    )
