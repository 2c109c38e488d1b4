"""An event is read in every form in which libraries and connectors send it, and a form that can't be read is named."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.cloudevents import decode, encode
from kb_contracts.documents import DOCUMENT_EVENTS, OcrCompleted
from kb_contracts.errors import Rejected
from kb_contracts.event_forms import EventHeaders, read_events_leniently

OCR = OcrCompleted(
    organization_id="acme",
    document_id="d1",
    revision=1,
    document_name="d.pdf",
    tag_ids=["a"],
    upload_date=datetime(2026, 1, 31, tzinfo=UTC),
    text="Grüße: \u2028 the text.",
    metadata={"n": 1, "type": "offer", "data": "none"},
)
WRITTEN_AT = datetime(2026, 2, 1, tzinfo=UTC)
EVENT: dict[str, Any] = json.loads(encode(OCR, source="/upstream", event_id="e1"))
DATA: dict[str, Any] = EVENT["data"]
ATTRIBUTES = {"specversion": "1.0", "id": "e1", "source": "/upstream", "type": OCR.TYPE}
STRUCTURED = ("content-type", b"application/cloudevents+json; charset=UTF-8")
CONNECT_SCHEMA = {"type": "struct", "fields": [], "optional": False}


def dump(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def without(*names: str, **changes: object) -> dict[str, Any]:
    return {name: value for name, value in (EVENT | changes).items() if name not in names}


def binary(*more: tuple[str, bytes | None], prefix: str = "ce_", **changes: str | None) -> EventHeaders:
    attributes = {name: value for name, value in (ATTRIBUTES | changes).items() if value is not None}
    return [*((prefix + name, value.encode()) for name, value in attributes.items()), *more]


def quoted(headers: EventHeaders) -> EventHeaders:
    """Quote headers as Spring does with each that it takes for an object."""
    return [(name, json.dumps((value or b"").decode()).encode()) for name, value in headers]


JSON_TYPE = ("content-type", b"application/json")

READABLE: dict[str, tuple[bytes, EventHeaders]] = {
    "structured": (dump(EVENT), [STRUCTURED]),
    "structured, no headers": (dump(EVENT), []),
    "structured, the type of a StringSerializer": (dump(EVENT), [("contentType", b'"text/plain"')]),
    "structured, null headers": (dump(EVENT), [("content-type", None), ("ce_id", None), ("traceparent", None)]),
    "structured, attributes repeated as headers": (dump(EVENT), binary(JSON_TYPE)),
    "structured, some other ce_ header": (dump(EVENT), [("ce_partitionkey", b"acme/d1"), ("ce_x", b"\xff")]),
    "structured, byte order mark": (b"\xef\xbb\xbf" + dump(EVENT), []),
    "structured, white space": (b"\r\n " + dump(EVENT) + b"\r\n", []),
    "structured, ASCII escapes": (json.dumps(EVENT).encode(), []),
    "structured, behind the id of a schema": (b"\x00\x00\x00\x00\x07" + dump(EVENT), []),
    "structured, null attributes": (dump(EVENT | {"datacontenttype": None, "subject": None, "time": None}), []),
    "structured, no time": (dump(without("time")), []),
    "structured, no specversion": (dump(without("specversion")), []),
    "structured, extensions": (dump(EVENT | {"traceparent": "00-x", "partitionkey": "k", "com": {"x": [1]}}), []),
    "structured, charset": (dump(EVENT | {"datacontenttype": "application/json; charset=utf-8"}), []),
    "structured, quoted charset": (dump(EVENT | {"datacontenttype": 'Application/JSON;charset="UTF-8"'}), []),
    "structured, +json": (dump(EVENT | {"datacontenttype": "application/vnd.acme.document.v2+json"}), []),
    "structured, text/json": (dump(EVENT | {"datacontenttype": "text/json"}), []),
    "structured, behind the id of Apicurio": (b"\x00" + (7).to_bytes(8) + dump(EVENT), []),
    "structured, behind the id of AWS Glue": (b"\x03\x00" + bytes(range(0xF0, 0x100)) + dump(EVENT), []),
    "structured, null for what is optional": (
        dump(EVENT | {"data": DATA | {"pages": None, "text_ref": None, "content_type": None, "embedding_text": None}}),
        [],
    ),
    "the whole event as a JSON text": (dump(json.dumps(EVENT)), []),
    "the whole event as a JSON text of a JSON text": (dump(json.dumps(json.dumps(EVENT))), []),
    "data as a JSON text": (dump(EVENT | {"data": json.dumps(DATA)}), []),
    "data as a JSON text of type text": (dump(EVENT | {"data": json.dumps(DATA), "datacontenttype": "text/plain"}), []),
    "data in base64": (dump(without("data", data_base64=base64.b64encode(dump(DATA)).decode())), []),
    "data in base64 of type bytes": (
        dump(
            without(
                "data", data_base64=base64.b64encode(dump(DATA)).decode(), datacontenttype="application/octet-stream"
            )
        ),
        [],
    ),
    "data in base64 beside null": (
        dump(EVENT | {"data": None, "data_base64": base64.b64encode(dump(DATA)).decode()}),
        [],
    ),
    "Connect with schema": (dump({"schema": CONNECT_SCHEMA, "payload": EVENT}), []),
    "Connect with schema, text": (dump({"schema": {"type": "string"}, "payload": json.dumps(EVENT)}), []),
    "Connect with null schema": (dump({"schema": None, "payload": EVENT}), []),
    "data of Connect": (dump(EVENT | {"data": {"schema": CONNECT_SCHEMA, "payload": DATA}}), []),
    "Dapr around an event": (dump({"type": "com.dapr.event.sent", "specversion": "1.0", "id": "x", "data": EVENT}), []),
    "Dapr around the text of an event": (
        dump(
            {
                "type": "com.dapr.event.sent",
                "specversion": "1.0",
                "id": "x",
                "datacontenttype": "text/plain",
                "data": json.dumps(EVENT),
            }
        ),
        [],
    ),
    "binary": (dump(DATA), binary(JSON_TYPE)),
    "binary, no content type": (dump(DATA), binary()),
    "binary, charset": (dump(DATA), binary(("Content-Type", b"application/json;charset=utf-8"))),
    "binary, names in upper case": (dump(DATA), [(name.upper(), value) for name, value in binary()]),
    "binary, names of HTTP": (dump(DATA), binary(prefix="ce-")),
    "binary, quoted by Spring": (dump(DATA), quoted(binary(("contentType", b"application/json"), JSON_TYPE))),
    "binary, ce_datacontenttype": (dump(DATA), binary(datacontenttype="application/json")),
    "binary, time": (dump(DATA), binary(time="2026-02-01T00:00:00Z")),
    "binary, time as a number": (dump(DATA), binary(time="1769904000.000")),
    "binary, white space": (dump(DATA), [(name, b" " + (value or b"") + b"\t") for name, value in binary()]),
    "binary, data as headers": (dump(DATA), binary(("ce_data", b"x"), ("ce_data_base64", b"e30="))),
    "binary, the same header twice": (dump(DATA), [*binary(), *binary()]),
    "binary, extensions and null": (dump(DATA), binary(("ce_subject", None), ("ce_tenant", b"x"), ("x", b"\xff"))),
    "binary, data of Connect": (dump({"schema": CONNECT_SCHEMA, "payload": DATA}), binary(JSON_TYPE)),
    "binary, behind the id of a schema": (b"\x00\x00\x00\x00\x07" + dump(DATA), binary()),
    "structured, data with fields of its own": (
        dump(EVENT | {"data": DATA | {"type": "invoice", "source": "scanner", "data": {"pages": 3}}}),
        [],
    ),
    "binary, data with fields of its own": (
        dump(DATA | {"type": "invoice", "source": "scanner", "data": {"pages": 3}, "specversion": "1.0"}),
        binary(JSON_TYPE),
    ),
    "structured, type in capitals": (dump(EVENT), [("content-type", b"application/CloudEvents")]),
    "binary around an event": (dump(EVENT), binary(JSON_TYPE, type="com.dapr.event.sent")),
}

REFUSED: dict[str, tuple[bytes | None, EventHeaders, str, str]] = {
    "batch": (dump([EVENT]), [], "bad-envelope", "a batch of events"),
    "batch by its type": (
        dump([EVENT]),
        [("content-type", b"application/cloudevents-batch+json")],
        "bad-envelope",
        "batch",
    ),
    "batch within Connect": (dump({"schema": None, "payload": [EVENT, EVENT]}), [], "bad-envelope", "batch"),
    "Avro": (b"\x00\x01", [("content-type", b"application/cloudevents+avro")], "bad-envelope", "cloudevents+avro"),
    "Protobuf": (b"\x0a", [("content-type", b"application/cloudevents+protobuf")], "bad-envelope", "content-type"),
    "another charset": (
        dump(EVENT),
        [("content-type", b"application/cloudevents+json; charset=iso-8859-1")],
        "bad-envelope",
        "UTF-8",
    ),
    "data of another charset": (
        dump(EVENT | {"datacontenttype": "application/json; charset=iso-8859-1"}),
        [],
        "bad-envelope",
        "datacontenttype",
    ),
    "data of another type": (
        dump(EVENT | {"datacontenttype": "application/xml"}),
        [],
        "bad-envelope",
        "datacontenttype",
    ),
    "no media type": (dump(EVENT | {"datacontenttype": "json"}), [], "bad-envelope", "datacontenttype"),
    "XML in base64": (
        dump(without("data", data_base64=base64.b64encode(b"<a/>").decode())),
        [],
        "bad-envelope",
        "data_base64",
    ),
    "not base64": (dump(without("data", data_base64="{}")), [], "bad-envelope", "data_base64"),
    "bare data": (dump(DATA), [], "bad-envelope", "ce_specversion, ce_id, ce_source, ce_type"),
    "bare data with names of Java": (dump({"organizationId": "acme"}), [], "bad-envelope", "without its attributes"),
    "bare data with the type of Spring": (dump(DATA), [("__TypeId__", b"com.acme.Ocr")], "bad-envelope", "without its"),
    "binary, two missing": (dump(DATA), binary(JSON_TYPE, id=None, source=""), "bad-envelope", "ce_id, ce_source"),
    "binary, XML": (b"<a/>", binary(("content-type", b"application/xml")), "not-json", "JSON"),
    "binary, JSON called XML": (
        dump(DATA),
        binary(("content-type", b"application/xml")),
        "bad-envelope",
        "content-type: must be application/json or another media type of JSON, not application/xml",
    ),
    "binary, text": (
        dump(DATA),
        binary(("content-type", b"text/plain;charset=UTF-8")),
        "bad-envelope",
        "content-type: must be application/json or another media type of JSON, not text/plain: send data as JSON",
    ),
    "binary, wrong time": (dump(DATA), binary(time="yesterday"), "bad-envelope", "ce_time: must be a date-time"),
    "binary, wrong version": (
        dump(DATA),
        binary(prefix="CE-", specversion="0.3"),
        "bad-envelope",
        'CE-specversion: must be "1.0", not "0.3"',
    ),
    "structured, beside a header that is not UTF-8": (
        dump(EVENT | {"time": "yesterday"}),
        [("ce_x", b"\xff")],
        "bad-envelope",
        "time: must be a date-time",
    ),
    "binary, two ids": (dump(DATA), binary(("ce_id", b"e2")), "bad-envelope", "ce_id occurs twice"),
    "binary, not UTF-8": (dump(DATA), binary(("ce_subject", b"\xff")), "bad-envelope", "ce_subject is not UTF-8"),
    "binary, no value": (None, binary(), "no-value", "no value"),
    "old version": (dump(EVENT | {"specversion": "0.3"}), [], "bad-envelope", "specversion"),
    "Dapr's own type": (dump(EVENT | {"type": "com.dapr.event.sent"}), [], "unknown-type", "cloudevent.type"),
    "Debezium": (
        dump({"before": None, "after": {"organization_id": "acme"}, "source": {}, "op": "c"}),
        [],
        "bad-envelope",
        "Debezium",
    ),
    "EventBridge": (dump({"detail-type": "x", "source": "y", "detail": EVENT}), [], "bad-envelope", "EventBridge"),
    "SNS": (dump({"Type": "Notification", "MessageId": "1", "Message": "{}"}), [], "bad-envelope", "SNS"),
    "Pub/Sub": (dump({"message": {"data": ""}, "subscription": "s"}), [], "bad-envelope", "Pub/Sub"),
    "data twice": (
        dump(EVENT | {"data_base64": base64.b64encode(dump(DATA)).decode()}),
        [],
        "bad-envelope",
        "send one of them",
    ),
    "a number": (b"17", [], "bad-envelope", "a number"),
    "null": (b"null", [], "bad-envelope", "null"),
    "a text": (b'"hello"', [], "bad-envelope", "a JSON text"),
    "JSON in base64": (dump(base64.b64encode(dump(EVENT)).decode()), [], "bad-envelope", "a text with JSON in Base64"),
    "a name twice": (dump(EVENT)[:-1] + b',"id":"e2"}', [], "not-json", "occurs twice"),
    "UTF-16": (json.dumps(EVENT).encode("utf-16"), [], "not-utf8", "UTF-8"),
    "latin-1": (json.dumps(EVENT, ensure_ascii=False).replace("\u2028", "").encode("latin-1"), [], "not-utf8", "UTF-8"),
    "trailing NUL": (dump(EVENT) + b"\x00", [], "not-json", "JSON"),
}


@pytest.mark.parametrize("form", READABLE)
def test_an_event_is_the_same_in_each_form(form: str) -> None:
    value, headers = READABLE[form]
    envelope, event = decode(value, DOCUMENT_EVENTS, headers=headers, written_at=WRITTEN_AT)
    assert event == OCR
    assert (envelope.id, envelope.source, envelope.type) == ("e1", "/upstream", OCR.TYPE)


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_can_not_be_read_is_refused_by_its_name(form: str) -> None:
    value, headers, reason, words = REFUSED[form]
    with pytest.raises(Rejected) as rejected:
        decode(value, DOCUMENT_EVENTS, headers=headers, written_at=WRITTEN_AT)
    assert rejected.value.reason == reason
    assert words in rejected.value.detail
    assert "Grüße" not in rejected.value.detail


def test_an_event_without_a_time_has_that_of_its_record() -> None:
    envelope, _ = decode(dump(without("time")), DOCUMENT_EVENTS, written_at=WRITTEN_AT)
    assert envelope.time == WRITTEN_AT
    with pytest.raises(Rejected, match=r"time: is missing .*record"):
        decode(dump(without("time")), DOCUMENT_EVENTS)
    with pytest.raises(Rejected) as rejected:
        decode(dump(without("id")), DOCUMENT_EVENTS)
    assert rejected.value.detail == "id: is missing"


def test_the_time_of_an_event_goes_before_that_of_its_record() -> None:
    envelope, _ = decode(dump(EVENT | {"time": "2025-12-31T00:00:00+01:00"}), DOCUMENT_EVENTS, written_at=WRITTEN_AT)
    assert envelope.time == datetime(2025, 12, 30, 23, tzinfo=UTC)


@pytest.mark.parametrize("form", [*READABLE, "Debezium", "batch", "bare data", "binary, two missing", "old version"])
def test_the_organization_can_be_told_from_an_event_that_is_read_or_refused(form: str) -> None:
    value, headers = READABLE[form] if form in READABLE else REFUSED[form][:2]
    assert [event["data"]["organization_id"] for event in read_events_leniently(value, headers)] == ["acme"]


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from([*EVENT, "schema", "payload", "data_base64", "organization_id", "op"]) | st.text(), inner
        )
        | inner.map(json.dumps)
    ),
)


@given(
    value=json_documents.map(lambda document: json.dumps(document).encode()) | st.binary() | st.none(),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["content-type", "ce_id", "ce_type", "ce_specversion", "ce_source", "ce_time"]) | st.text(),
            st.none() | st.binary() | st.sampled_from([b"1.0", b"application/json", b'"x"', b'"', b'"\\ud800"']),
        )
    ),
)
def test_whatever_a_record_holds_it_is_an_event_or_a_refusal(value: bytes | None, headers: EventHeaders) -> None:
    list(read_events_leniently(value, headers))
    try:
        decode(value, DOCUMENT_EVENTS, headers=headers)
    except Rejected as rejected:
        rejected.reason.encode("ascii")
        rejected.detail.encode()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (1_769_860_800, datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("1769860800000", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (1_769_860_800.5, datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026", None),
        (2026, None),
        (20_260_131, None),
        ("20260131120000", None),
        (20_483, None),
        (86_400_000, None),
        (0, None),
        (-1, None),
        (1_769_860_800_000_000, None),
        ("9" * 40, None),
    ],
)
def test_a_number_is_a_time_only_if_it_can_be_one(given: object, stored: datetime | None) -> None:
    value = dump(EVENT | {"data": DATA | {"upload_date": given, "metadata": {"d": {"$date": given}}}})
    if stored is not None:
        _, event = decode(value, DOCUMENT_EVENTS)
        assert isinstance(event, OcrCompleted)
        assert event.upload_date == stored
        return
    with pytest.raises(Rejected, match="upload_date: must be a date-time such as 2026-01-31T12:00:00Z"):
        decode(value, DOCUMENT_EVENTS)
    _, event = decode(dump(EVENT | {"data": DATA | {"metadata": {"d": {"$date": given}}}}), DOCUMENT_EVENTS)
    assert isinstance(event, OcrCompleted)
    assert (event.metadata, bool(event.metadata_warnings)) == ({}, True)


@pytest.mark.parametrize("page", [{"page": "1"}, {"page": True}, {"page": 1.0}, {"start": "0"}, {"end": 3.0}])
def test_the_numbers_of_pages_are_integers(page: dict[str, object]) -> None:
    with pytest.raises(Rejected, match="must be an integer"):
        decode(dump(EVENT | {"data": DATA | {"pages": [{"page": 1, "start": 0, "end": 3} | page]}}), DOCUMENT_EVENTS)


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b'{"document_id": "d"}', binary()),
        (b'{"a":1,}', binary()),
        (b"\xff", binary()),
        (b"[1]", binary()),
        (None, binary()),
        (dump(DATA), binary(("ce_source", b"\xff"))),
        (dump(DATA), binary(("ce_source", b"/other"))),
        (dump(without("data", data_base64="!!")), []),
        (dump(without("data", data_base64=base64.b64encode(b"\x1f\x8b").decode())), []),
        (dump(EVENT | {"data_base64": "e30="}), []),
    ],
)
def test_the_id_of_a_refused_event_is_known_if_it_can_be_read(value: bytes | None, headers: EventHeaders) -> None:
    with pytest.raises(Rejected):
        decode(value, DOCUMENT_EVENTS, headers=headers)
    event = next(read_events_leniently(value, headers))
    assert (event["id"], event["type"]) == ("e1", OCR.TYPE)


def test_a_deletion_is_suggested_only_to_a_sender_that_may_have_meant_one() -> None:
    suggested = {}
    for kind in ("document.indexed.v1", "document.delete.v1", "document.ocr_complete.v1"):
        with pytest.raises(Rejected) as rejected:
            decode(dump(EVENT | {"type": kind}), DOCUMENT_EVENTS)
        suggested[kind] = rejected.value.detail.partition("did you mean ")[2]
    assert list(suggested.values()) == ["", "document.deleted.v1?", "document.ocr_completed.v1?"]
