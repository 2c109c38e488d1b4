"""Metadata that can't be stored cost no document: they are left out of received events, and warnings say so."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kb_contracts import metadata as metadata_module
from kb_contracts.cloudevents import decode, encode
from kb_contracts.documents import DOCUMENT_EVENTS, MetadataChanged, OcrCompleted
from kb_contracts.metadata import (
    MAX_METADATA_KEYS,
    MAX_WARNINGS,
    DateValue,
    Metadata,
    MetadataWarning,
    storable_metadata,
)
from kb_contracts.reasons.field_reasons import FieldReason, why_not
from tests.unit.indexer.test_decode import ENVELOPE, rejection, with_data, with_number

SECRET = "no-warning-may-contain-this"
METADATA: TypeAdapter[Any] = TypeAdapter(Metadata)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.text(alphabet=st.characters(), max_size=5),
    st.sampled_from(["x" * 8_192, "x" * 8_193, "\x00", "\ud800", "2026-01-31"]),
)
json_values = st.recursive(
    scalars | st.fixed_dictionaries({"$date": scalars | st.just("2026-01-31T00:00:00Z")}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(st.sampled_from(["a", "b", "c.d", "a b", "", "k" * 65, "\ud800"]) | st.text(), json_values)


def received(**fields: Any) -> OcrCompleted:
    _, event = decode(with_data(**fields), DOCUMENT_EVENTS)
    assert isinstance(event, OcrCompleted)
    return event


@given(metadata)
def test_what_is_kept_is_valid_and_all_that_is_valid_is_kept(given_metadata: Mapping[str, Any]) -> None:
    stored, warnings = storable_metadata(given_metadata)

    METADATA.validate_python(stored)
    for key, value in given_metadata.items():
        try:
            METADATA.validate_python({key: value})
        except ValidationError:
            assert key not in stored
        else:
            assert stored[key] is value
    assert len(warnings) == min(MAX_WARNINGS, len(given_metadata) - len(stored))
    assert list(stored) == [each for each in given_metadata if each in stored]


@given(json_values)
def test_any_json_as_metadata_costs_only_itself(value: Any) -> None:
    event = received(metadata=value)

    assert event.text == "The text."
    assert event.metadata == (None if value is None else METADATA.validate_python(storable_metadata(value)[0]))
    again = encode(event, source="/again")
    assert decode(again, DOCUMENT_EVENTS)[1] == event


@given(json_values)
def test_any_json_as_warnings_of_the_sender_costs_nothing(value: Any) -> None:
    assert received(metadata_warnings=value).metadata == {"n": 1}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, ", not null"),
        ([], ", not an empty list"),
        ([2026, 1, 31], ", not a list of 3 items"),
        ({SECRET: SECRET}, ", not an object of 1 field"),
        ({"$numberLong": "12"}, ", not an object of 1 field"),
        (2**63, "must be within 64 bits"),
        (-(2**63) - 1, "must be within 64 bits"),
        (math.inf, "must be a finite number"),
        (math.nan, "must be a finite number"),
        (SECRET + "x" * 8_192, "must have at most 8,192 characters, not 8,219"),
        (SECRET + "\x00", "must not contain NUL characters: remove them"),
        (SECRET + "\ud800", "must not contain half of a surrogate pair: send valid Unicode"),
        ({"$date": SECRET}, "must be a date-time such as "),
        ({"$date": "2026-01-31T00:00:00"}, "the zone is missing"),
        ({"$date": {"$numberLong": "12"}}, ", not an object of 1 field"),
        ({"$date": "2026-01-31T00:00:00Z", SECRET: 1}, ", not an object of 2 fields"),
    ],
)
def test_each_value_that_is_left_out_has_a_warning_that_does_not_repeat_it(value: Any, message: str) -> None:
    event = received(metadata={"year": 2026, "authors": value, "language": "en"})

    assert event.metadata == {"year": 2026, "language": "en"}
    assert event.metadata_warnings is not None
    (warning,) = event.metadata_warnings
    assert warning.field.startswith("metadata.authors")
    assert message in warning.message
    assert SECRET not in warning.message


@pytest.mark.parametrize("value", [4 * 10**25, {"$date": 4111111111111111}, {"$date": "411111-11"}])
def test_a_warning_shows_no_digit_of_a_value(value: Any) -> None:
    _, warnings = storable_metadata({"iban": value})
    assert warnings
    assert not [each for each in warnings if "411111" in each.message or "4000" in each.message]


def test_no_more_than_a_thousand_keys_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[object] = []

    def count(adapter: TypeAdapter[Any], value: object, *, quotes: bool) -> list[FieldReason]:
        examined.append(value)
        return why_not(adapter, value, quotes=quotes)

    monkeypatch.setattr(metadata_module, "why_not", count)
    stored, warnings = storable_metadata({f"k{n}": [] for n in range(90_000)} | {"good": 1})
    assert (stored, len(examined), len(warnings)) == ({}, 1_000, MAX_WARNINGS)
    assert warnings[-1].message.startswith("89,982 more values")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "not an empty text"),
        (SECRET + " ", "character 28 is a space"),
        (SECRET + "\n", "character 28 is "),
        ("\ud800", "half of a surrogate pair"),
        ("stra\u00dfe", "character 5 is "),
        (SECRET * 3, "not a text of 81 characters"),
    ],
)
def test_a_key_that_can_be_none_is_not_repeated(key: str, message: str) -> None:
    stored, (warning,) = storable_metadata({"a": 1, key: 2})
    assert stored == {"a": 1}
    assert warning.field == "metadata.?"
    assert warning.message.startswith("the name must ")
    assert message in warning.message
    assert SECRET not in warning.message


@pytest.mark.parametrize("number", [b"9" * 400, b"9" * 401, b"-" + b"9" * 5000, b"1e999", b"NaN", b"-Infinity"])
def test_a_number_that_python_can_not_read_costs_only_itself(number: bytes) -> None:
    _, event = decode(with_number("metadata", b'{"n": ' + number + b', "ok": 1}'), DOCUMENT_EVENTS)
    assert isinstance(event, OcrCompleted)
    assert event.metadata == {"ok": 1}
    assert [each.field for each in event.metadata_warnings or ()] == ["metadata.n"]


def test_of_too_many_keys_the_first_are_kept() -> None:
    keys = {f"k{number}": number for number in range(MAX_METADATA_KEYS + 2)}
    stored, warnings = storable_metadata({"bad": None, **keys})
    assert stored == dict(list(keys.items())[:MAX_METADATA_KEYS])
    assert [each.field for each in warnings] == ["metadata.bad", "metadata.k100", "metadata.k101"]
    assert warnings[-1].message == "must be one of the first 100 keys: no more are stored"


def test_of_too_many_warnings_the_last_one_counts_the_others() -> None:
    stored, warnings = storable_metadata({f"k{number}": None for number in range(500)})
    assert stored == {}
    assert len(warnings) == MAX_WARNINGS
    assert warnings[-1] == MetadataWarning(field="metadata", message="481 more values can't be stored")
    assert warnings[-2].field == "metadata.k18"
    assert len(storable_metadata(dict.fromkeys("abcdefghijklmnopqrst"))[1]) == MAX_WARNINGS


@pytest.mark.parametrize(
    ("value", "shown"),
    [("{}", "a text of 2 characters"), ([], "an empty list"), (True, "true"), (0, "0"), (0.5, "0.5")],
)
def test_metadata_that_are_no_object_are_left_out_as_a_whole(value: Any, shown: str) -> None:
    event = received(metadata=value)
    assert event.metadata == {}
    assert event.metadata_warnings == (MetadataWarning(field="metadata", message=f"must be an object, not {shown}"),)


def test_a_change_of_metadata_that_are_no_object_is_rejected_because_nothing_remains() -> None:
    changed = json.dumps({**ENVELOPE, "type": MetadataChanged.TYPE, "data": {**ENVELOPE["data"], "metadata": "{}"}})
    error = rejection(changed.encode())
    assert error is not None
    assert error.detail.startswith("metadata: ")


def test_a_date_keeps_its_form_and_stays_a_date() -> None:
    event = received(metadata={"when": {"$date": "2026-01-31T00:00:00Z"}})
    assert event.metadata == {"when": DateValue.model_validate({"$date": datetime(2026, 1, 31, tzinfo=UTC)})}
    assert event.metadata_warnings is None


def test_a_publisher_that_makes_an_event_gets_an_error_at_once() -> None:
    for bad in ({"authors": ["a"]}, {"n": math.nan}, {"a b": 1}, "no object"):
        with pytest.raises(ValidationError):
            MetadataChanged(organization_id="acme", document_id="d", revision=1, metadata=bad)
        with pytest.raises(ValidationError):
            OcrCompleted.model_validate({**ENVELOPE["data"], "metadata": bad})


def test_warnings_of_the_sender_come_after_those_that_were_found() -> None:
    sent = [{"field": "metadata.sent", "message": "is a list"}, {"field": 1}, "x"]
    warnings = received(metadata={"found": None}, metadata_warnings=sent).metadata_warnings
    assert [each.field for each in warnings or ()] == ["metadata.found", "metadata.sent"]
    many = [{"field": "metadata.sent", "message": "is a list"}] * 30
    assert len(received(metadata={"found": None}, metadata_warnings=many).metadata_warnings or ()) == MAX_WARNINGS
