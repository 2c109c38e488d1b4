"""Records as frameworks send them by their documentation are read or refused as the page says."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kb_contracts.cloudevents import decode
from kb_contracts.documents import DOCUMENT_EVENTS, key_of
from kb_contracts.errors import Rejected
from kb_contracts.event_forms import EventHeaders
from kb_shared.messaging.event_keys import read_key
from tests.producers.page import PAGE
from tests.producers.table import EventsOfRun

RECORD: Final = EventsOfRun("local", "").published()[0]
KEY: Final = str(RECORD["key"])
EVENT: Final[Mapping[str, Any]] = {name: value for name, value in RECORD["event"].items() if name != "datacontenttype"}
DATA: Final = EVENT["data"]
ATTRIBUTES: Final = [(f"ce_{name}", str(value).encode()) for name, value in EVENT.items() if name != "data"]


def text(document: object) -> bytes:
    return json.dumps(document).encode()


READ: Final[Mapping[str, tuple[str | None, EventHeaders, bytes]]] = {
    "Spring Kafka": (
        KEY,
        [("__TypeId__", b"com.acme.DocumentEvent"), ("spring_json_header_types", b"{}")],
        text(EVENT),
    ),
    "Spring Kafka, a JSON text and a quoted key": (
        json.dumps(KEY),
        [("__TypeId__", b"java.lang.String")],
        text(json.dumps(EVENT)),
    ),
    "Spring Cloud Stream": (KEY, [("contentType", b"application/json"), ("scst_version", b"4.1")], text(EVENT)),
    "Confluent's schema registry, JSON": (KEY, [], b"\x00\x00\x00\x00\x07" + text(EVENT)),
    "Debezium": (KEY, [("id", b"4d47e190"), ("eventType", b"Offer")], text(EVENT)),
    "Debezium, without expand": (json.dumps(KEY), [("id", b"4d47e190")], text(json.dumps(EVENT))),
    "Kafka Connect": (
        json.dumps({"schema": {"type": "string"}, "payload": KEY}),
        [],
        text({"schema": {"type": "struct", "fields": []}, "payload": EVENT}),
    ),
    "Dapr pub/sub": (
        KEY,
        [],
        text(
            {
                **EVENT,
                "datacontenttype": "application/json; charset=utf-8",
                "topic": "t",
                "pubsubname": "p",
                "traceid": "x",
            }
        ),
    ),
    "Dapr pub/sub, without a key, its own event around ours": (
        None,
        [],
        text(
            {**EVENT, "type": "com.dapr.event.sent", "datacontenttype": "application/cloudevents+json", "data": EVENT}
        ),
    ),
    "NestJS microservices": (None, [], text(EVENT)),
    "SmallRye Reactive Messaging": (KEY, [*ATTRIBUTES, ("content-type", b"application/json")], text(DATA)),
    "SmallRye Reactive Messaging, structured": (
        KEY,
        [("content-type", b"application/cloudevents+json; charset=UTF-8")],
        text(EVENT),
    ),
    "Knative": (
        KEY,
        [*ATTRIBUTES, ("ce_partitionkey", KEY.encode()), ("content-type", b"application/json")],
        text(DATA),
    ),
}
REFUSED: Final[Mapping[str, tuple[EventHeaders, bytes, str]]] = {
    "Confluent's schema registry, Avro": ([], b"\x00\x00\x00\x00\x07\x02\xc3\x28offer", "not-json"),
    "Debezium, a change event": ([], text({"before": None, "after": {"id": 1}, "op": "c"}), "bad-envelope"),
    "Dapr pub/sub, data alone": (
        [],
        text({**EVENT, "type": "com.dapr.event.sent", "topic": "document-events"}),
        "unknown-type",
    ),
    "NestJS microservices, an object with a text of its own": ([], b"Offer 17", "not-json"),
    "Quarkus, SmallRye Reactive Messaging, the payload alone": ([], text(DATA), "bad-envelope"),
}


@pytest.mark.parametrize("form", READ)
def test_a_record_as_a_framework_sends_it_is_read(form: str) -> None:
    key, headers, value = READ[form]
    envelope, event = decode(value, DOCUMENT_EVENTS, headers=headers)
    assert envelope.id == EVENT["id"]
    assert event == DOCUMENT_EVENTS[EVENT["type"]].model_validate(DATA)
    assert key is None or read_key(key.encode()).key == key_of(event).decode() == KEY


@pytest.mark.parametrize("form", REFUSED)
def test_a_record_that_is_no_event_is_refused(form: str) -> None:
    headers, value, reason = REFUSED[form]
    with pytest.raises(Rejected) as refused:
        decode(value, DOCUMENT_EVENTS, headers=headers)
    assert refused.value.reason == reason


@pytest.mark.parametrize("form", [*READ, *REFUSED])
def test_the_page_names_each_framework_that_is_tried(form: str) -> None:
    assert form.partition(",")[0] in PAGE.read_text(encoding="utf-8")
