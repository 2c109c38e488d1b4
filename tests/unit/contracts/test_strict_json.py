import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.strict_json import MAX_VALUES, parse

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_a_document_that_is_json_reads_as_the_standard_parser_reads_it(value: object) -> None:
    assert parse(json.dumps(value, allow_nan=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_value_error(body: bytes) -> None:
    try:
        parse(body)
    except ValueError:
        return


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b'{"a": -Infinity}',
        b'{"a": 1e400}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "\\u0062": 2}}',
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b'["\xed\xa0\x80"]',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_ambiguous_or_unstorable_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^{}\[\]]*$"):
        parse(body)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    "text",
    [
        '"' + "," * 2 * MAX_VALUES + '"',
        '["' + '\\"[{,' * MAX_VALUES + '\\\\", "' + ",{" * MAX_VALUES + '"]',
        "[" + ",".join(["0"] * (MAX_VALUES - 1)) + "]",
    ],
)
def test_text_in_strings_does_not_count_as_values(text: str) -> None:
    parse(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["0"] * (MAX_VALUES + 1)) + "]",
        "[" + ",".join(['{"":0}'] * MAX_VALUES) + "]",
        "[" + ",".join(["[]"] * MAX_VALUES) + "]",
        '["\\\\",' + ",".join(['"\\""'] * MAX_VALUES) + "]",
        '["",' + "[" * 2 * MAX_VALUES,
    ],
)
def test_a_document_of_too_many_values_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="values"):
        parse(text.encode())


def test_refusing_many_values_takes_no_longer_than_parsing_what_is_taken() -> None:
    def cpu_s(text: str) -> float:
        begun = time.thread_time()
        with suppress(ValueError):
            parse(text.encode())
        return time.thread_time() - begun

    taken = "[" + ",".join(["[]"] * (MAX_VALUES // 2)) + "]"
    for refused in (
        "[" + ",".join(['{"":0}'] * 285_000) + "]",
        '"\\"' * 600_000,
        "[" + ",".join(["[]"] * 600_000) + "]",
    ):
        assert cpu_s(refused) < 3 * cpu_s(taken)
