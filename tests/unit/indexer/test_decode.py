"""Whatever stands in a message, decoding it gives a message or a `Rejected`, whose words can go anywhere."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.cloudevents import MAX_EVENT_BYTES, Payload, decode, encode
from kb_contracts.commands import INDEX_REQUESTS
from kb_contracts.documents import ABOUT_TAGS, DOCUMENT_EVENTS, DocumentEvent, MetadataChanged, OcrCompleted
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import KB_EVENTS, USAGE
from kb_shared.membership.projection import apply
from kb_shared.mongo.documents import Document

ALL: dict[str, type[Payload]] = {**DOCUMENT_EVENTS, **INDEX_REQUESTS, **KB_EVENTS, **USAGE}
SECRET = "no-log-may-contain-this"
SHOWN = {"organization_id", "document_id", "tag_ids", "specversion", "type", "datacontenttype"}
"""Fields for identifiers and choices."""

OCR = OcrCompleted(
    organization_id="acme",
    document_id="d",
    revision=1,
    document_name="d.pdf",
    tag_ids=["a"],
    upload_date=datetime(2026, 1, 31, tzinfo=UTC),
    text="The text.",
    metadata={"n": 1},
)
NOTHING_BUT_A_LIST = {"organization_id": "acme", "document_id": "d", "revision": 1, "metadata": [{"n": 1}]}
ENVELOPE: dict[str, Any] = json.loads(encode(OCR, source="/upstream"))


def rejection(value: bytes | None, *, of: str = "") -> Rejected | None:
    """None if the message is taken; then it can be applied to a document, too, and stored.

    Args:
        of: field that is wrong. Reasons show the beginning of identifiers and of choices.
    """
    try:
        envelope, event = decode(value, ALL)
    except Rejected as error:
        assert_can_go_anywhere(error, shows_text=of in SHOWN)
        return error
    assert envelope.time.astimezone(UTC)
    if isinstance(event, DocumentEvent):
        assert isinstance(apply(Document("acme", "d"), event, text_id="t"), Document)
    return None


def assert_can_go_anywhere(error: Rejected, *, shows_text: bool) -> None:
    error.reason.encode("ascii")
    assert len(error.detail.encode()) < 10_000
    assert shows_text or SECRET not in str(error)


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    copy = json.loads(json.dumps(ENVELOPE))
    change(copy)
    return json.dumps(copy).encode()


def with_data(**fields: Any) -> bytes:
    return changed(lambda envelope: envelope["data"].update(fields))


def with_envelope(**fields: Any) -> bytes:
    return changed(lambda envelope: envelope.update(fields))


def with_number(field: str, digits: bytes) -> bytes:
    """Return the message with a number in `data` that Python does not write."""
    return with_data(**{field: "DIGITS"}).replace(b'"DIGITS"', digits)


def nested(depth: int) -> Any:
    value: Any = SECRET
    for _ in range(depth):
        value = [value]
    return value


NASTY: list[Any] = [
    None, True, False, 0, -1, 1.5, float("nan"), float("-inf"), 10**30, -(2**63) - 1, 1e308, "", " ",
    SECRET, SECRET + "\x00", SECRET + "\ud800",
    "\udfff", "\ufeff", "\uff04where", "$where", "a.b", "__proto__", "2026-01-31", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "2026-01-31T00:00:00", "9" * 5000, "x" * 300_000, [], {}, [SECRET], {SECRET: SECRET},
    {"$date": "0001-01-01T00:00:00+14:00"}, {"$date": 10**30}, {"$date": SECRET}, {"$oid": SECRET}, {"\ud800": 1},
    {"": 1}, {"a b": SECRET}, {"k" * 100_000: 1}, {"k": nested(50)}, nested(200), [{}] * 2000, ["t"] * 10_000,
    [{"page": 10**30, "start": 0, "end": 1}], [{"page": 1, "start": 0, "end": 10**9}],
]  # fmt: skip

# What stands in no nasty list because hypothesis thinks of it: any JSON there is, under the names that matter.
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_rejected(value: bytes) -> None:
    assert rejection(value) is not None


@given(json_values)
def test_any_json_is_taken_or_rejected(value: Any) -> None:
    assert rejection(json.dumps(value).encode()) is not None


@given(st.sampled_from(sorted(ALL)), st.dictionaries(st.sampled_from(sorted(ENVELOPE["data"])), json_values))
def test_any_json_in_any_field_of_any_type_is_taken_or_rejected(kind: str, fields: dict[str, Any]) -> None:
    rejection(changed(lambda envelope: envelope.update(type=kind, data=envelope["data"] | fields)))


@pytest.mark.parametrize("field", [*sorted(ENVELOPE["data"]), "pages", "text_ref", "content_type", "unheard_of"])
@pytest.mark.parametrize("number", range(len(NASTY)))
def test_a_nasty_value_in_any_field_is_taken_or_rejected(field: str, number: int) -> None:
    rejection(with_data(**{field: NASTY[number]}), of=field)


@pytest.mark.parametrize("field", sorted(ENVELOPE))
@pytest.mark.parametrize("number", range(len(NASTY)))
def test_a_nasty_value_in_any_field_of_the_envelope_is_taken_or_rejected(field: str, number: int) -> None:
    rejection(with_envelope(**{field: NASTY[number]}), of=field)


@pytest.mark.parametrize(
    "field", ["organization_id", "document_id", "revision", "document_name", "tag_ids", "upload_date"]
)
def test_a_missing_field_is_rejected_and_named(field: str) -> None:
    error = rejection(changed(lambda envelope: envelope["data"].pop(field)))
    assert error is not None
    assert (error.reason, error.detail) == ("bad-data", f"{field}: is missing")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no-value"),
        (b"", "not-json"),
        (b"not json", "not-json"),
        (b"\xff\xfe", "not-utf8"),
        (b"null", "bad-envelope"),
        (b"[]", "bad-envelope"),
        (b"[" * 100_000, "not-json"),
        (b'{"a":' * 100_000, "not-json"),
        (b'{"data": NaN}', "bad-envelope"),
        (b'{"data": ' + b"9" * 5000 + b"}", "bad-envelope"),
        ("\ufeff{}".encode(), "bad-envelope"),
        (b" " * (MAX_EVENT_BYTES + 1), "too-large"),
        (with_envelope(type="document.ocr_completed.v2"), "unknown-type"),
        (with_envelope(specversion="0.3"), "bad-envelope"),
        (with_envelope(time="2026-01-31T00:00:00"), "bad-envelope"),
        (with_envelope(time="0001-01-01T00:00:00+14:00"), "bad-envelope"),
        (with_envelope(id=""), "bad-envelope"),
        (with_data(revision=True), "bad-data"),
        (with_data(revision="1"), "bad-data"),
        (with_data(revision=2**63), "bad-data"),
        (with_data(document_name="NUL \x00"), "bad-data"),
        (with_data(text="half \ud800 a pair"), "bad-data"),
        (with_data(text_ref="acme/d/0"), "bad-data"),
        (with_data(text=None), "bad-data"),
        (with_data(tag_ids=["a"] * 1001), "bad-data"),
        (with_data(tag_ids=["a/b"]), "bad-data"),
        (with_data(document_id="../d"), "bad-data"),
        (with_data(document_id="d\n"), "bad-data"),
        (with_data(upload_date="2026-01-31T00:00:00"), "bad-data"),
        (with_data(upload_date="0001-01-01T00:00:00+14:00"), "bad-data"),
        (with_data(revision=float("nan")), "bad-data"),
        (with_data(revision=float("inf")), "bad-data"),
        (with_number("revision", b"9" * 5000), "bad-data"),
        (changed(lambda envelope: envelope.update(type=MetadataChanged.TYPE, data=NOTHING_BUT_A_LIST)), "bad-data"),
        (with_data(pages=[{"page": float("nan"), "start": 0, "end": 1}]), "bad-data"),
        (with_data(pages=[{"page": 10**30, "start": 0, "end": 1}]), "bad-data"),
        (with_data(pages=[{"page": 1, "start": 0, "end": 10}]), "bad-data"),
        (with_data(pages=[{"page": 1, "start": 5, "end": 4}]), "bad-data"),
        (with_data(pages=[{"page": 1, "start": 0, "end": 5}, {"page": 2, "start": 4, "end": 6}]), "bad-data"),
    ],
)  # fmt: skip
def test_each_error_in_a_message_has_a_name(value: bytes | None, reason: str) -> None:
    error = rejection(value)
    assert error is not None
    assert error.reason == reason


@pytest.mark.parametrize(
    "value",
    [
        with_data(unheard_of=1),
        with_data(text="x" * 900_000),
        with_data(text=""),
        with_data(tag_ids=[]),
        with_data(revision=-(2**63)),
        with_data(metadata={"s": "true", "b": True, "i": 2**63 - 1, "f": 0.5, "d": {"$date": "2026-01-31T00:00:00Z"}}),
        with_data(metadata="a string"),
        with_data(metadata={"n": [1], "a b": 1, "x": None}),
        with_data(metadata_warnings="no list"),
        with_data(document_name="Straße 北京 👩‍👩‍👧.pdf"),
        with_data(pages=[{"page": 1, "start": 0, "end": 4}, {"page": 2, "start": 4, "end": 9}]),
        with_envelope(unheard_of=1),
    ],
)
def test_unusual_valid_messages_are_accepted(value: bytes) -> None:
    assert rejection(value) is None


def test_a_string_that_looks_like_another_type_stays_a_string_and_a_number_a_number() -> None:
    values = {"date": "2026-01-31T00:00:00Z", "number": "1", "true": 1, "false": False, "float": 1.0}
    _, event = decode(with_data(metadata=values), DOCUMENT_EVENTS)
    assert isinstance(event, OcrCompleted)
    assert event.metadata is not None
    assert {k: (type(v), v) for k, v in event.metadata.items()} == {k: (type(v), v) for k, v in values.items()}


def test_a_tag_event_without_a_revision_goes_by_its_time() -> None:
    assert all(model.model_fields["revision"].default is None for model in ABOUT_TAGS.values())


@pytest.mark.parametrize("text", ["ä", "北京", "👩‍👩‍👧", "\u2028", "\\u0041"])
def test_text_comes_out_as_it_went_in_without_escapes_on_the_way(text: str) -> None:
    wire = encode(OCR.model_copy(update={"text": text}), source="/upstream")
    assert json.dumps(text, ensure_ascii=False).encode() in wire
    _, event = decode(wire, DOCUMENT_EVENTS)
    assert isinstance(event, OcrCompleted)
    assert event.text == text
