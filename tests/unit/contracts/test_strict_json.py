import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts import strict_json
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
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
def test_ambiguous_or_unstorable_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^{}\[\]]*$"):
        parse(body)


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert parse(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_another_encoding_is_named_with_what_to_do(encoding: str) -> None:
    with pytest.raises(ValueError, match=r"UTF-16.*encode it as UTF-8"):
        parse('{"a": 1}'.encode(encoding))


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


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(['{"":0}'] * 285_000) + "]",
        "[" + ",".join(['"\\""'] * 600_000) + "]",
        "[" + ",".join(["[]"] * 600_000) + "]",
        '["' + "," * 2_000_000 + '",' + "[" * (MAX_VALUES + 1),
    ],
)
def test_a_document_is_refused_after_each_character_was_read_twice_at_most_and_none_was_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, at_once = list[int](), strict_json._SLICE
    count_marks = strict_json._marks

    def note(part: str) -> int:
        read.append(len(part))
        return count_marks(part)

    monkeypatch.setattr(strict_json, "_marks", note)
    monkeypatch.setattr("kb_contracts.strict_json.json.loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(ValueError, match="values"):
        parse(text.encode())
    assert read[0] == len(text)
    assert sum(read[1:]) <= len(text)
    # Between two parts another thread can have its turn.
    assert max(read[1:], default=0) <= at_once
