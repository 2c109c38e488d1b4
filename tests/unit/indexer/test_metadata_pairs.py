from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.text.metadata_pairs import metadata_pair, metadata_pairs

values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.datetimes(timezones=st.just(UTC)).map(lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000)),
)


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@given(values, values)
def test_two_values_have_the_same_pair_if_and_only_if_they_are_equal_and_of_one_kind(one: Any, two: Any) -> None:
    assert (metadata_pair("k", one) == metadata_pair("k", two)) == (kind(one) == kind(two) and one == two)


@pytest.mark.parametrize(
    ("value", "pair"),
    [
        (True, "k=b:true"),
        (1, "k=n:1"),
        (1.0, "k=n:1"),
        (-0.0, "k=n:0"),
        (0.1, "k=n:0.1"),
        ("true", "k=s:true"),
        ("", "k=s:"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "k=d:1000"),
    ],
)
def test_the_format_of_a_pair_never_changes_because_indexes_hold_pairs(value: Any, pair: str) -> None:
    assert metadata_pair("k", value) == pair


def test_one_moment_has_one_pair_in_every_time_zone() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=9)))
    assert metadata_pair("k", moment) == metadata_pair("k", moment.astimezone(UTC))


@given(st.text(min_size=200, max_size=400))
def test_a_pair_is_short_enough_for_an_index(value: str) -> None:
    assert len(metadata_pair("k" * 64, value).encode()) <= 64 + 3 + 256


@given(st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), values)
def test_a_pair_begins_with_its_key_and_no_other(key: str, value: Any) -> None:
    assert metadata_pair(key, value).split("=", 1)[0] == key


def test_the_order_of_the_keys_does_not_matter() -> None:
    assert metadata_pairs({"a": 1, "b": 2}) == metadata_pairs({"b": 2, "a": 1})
