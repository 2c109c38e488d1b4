"""The 40 events are those that the AsyncAPI document describes, and it says what producers have to know."""

import json
import re
from typing import get_args

from kb_contracts.cloudevents import MAX_EVENT_BYTES
from kb_contracts.documents import DOCUMENT_EVENTS
from kb_shared.kafka_connection.connection import Compression
from tests.producers.asyncapi import asyncapi, violations
from tests.producers.clients import CODECS
from tests.producers.table import TABLE, EventsOfRun

RUN = EventsOfRun("local", "run.", transactional=True)
STRUCTURED = {"content-type": "application/cloudevents+json"}


def _binary(event: dict[str, object]) -> tuple[dict[str, str], bytes]:
    attributes = {f"ce_{name}": str(value) for name, value in event.items() if name not in ("data", "datacontenttype")}
    return attributes | {"content-type": "application/json"}, json.dumps(event["data"]).encode()


def test_there_are_forty_events_of_every_type() -> None:
    assert len(TABLE) == 40
    assert {each["type"] for each in TABLE} == DOCUMENT_EVENTS.keys()


def test_the_events_are_as_the_asyncapi_document_says() -> None:
    for record in [*RUN.published(), *RUN.aborted()]:
        assert violations(record["key"], STRUCTURED, json.dumps(record["event"]).encode()) == []
        headers, value = _binary(record["event"])
        assert violations(record["key"], headers, value) == []


def test_an_event_is_as_large_as_one_may_be() -> None:
    sizes = [len(json.dumps(record["event"])) for record in RUN.published()]
    assert MAX_EVENT_BYTES - 100 < max(sizes) <= MAX_EVENT_BYTES


def test_the_asyncapi_document_refuses_what_is_not_as_it_says() -> None:
    record = RUN.published()[0]
    value = json.dumps(record["event"]).encode()
    assert violations(f'"{record["key"]}"', STRUCTURED, value) != []
    assert violations(record["key"], {"content-type": "application/avro"}, value) != []
    assert violations(record["key"], STRUCTURED, value.replace(b'"revision": 1', b'"revision": "1"')) != []
    headers, data = _binary(record["event"])
    assert violations(record["key"], headers | {"ce_id": ""}, data) != []
    assert violations(record["key"], headers, data.replace(b'"revision": 1', b'"revision": "1"')) != []


def test_the_asyncapi_document_names_keys_headers_and_codecs() -> None:
    channel = asyncapi()["channels"]["document-events"]
    assert tuple(channel["bindings"]["x-codecs"]) == CODECS == get_args(Compression)
    assert "{organization_id}/{document_id}" in channel["description"]
    messages = {name: asyncapi()["components"]["messages"][name] for name in channel["messages"]}
    for name, message in messages.items():
        assert {"content-type", "traceparent"} <= message["headers"]["properties"].keys()
        assert ("ce_id" in message["headers"].get("required", [])) == name.endswith(".binary")
        key = message["bindings"]["kafka"]["key"]["pattern"]
        assert re.search(key, "local/tag/offers" if name.startswith("tag.") else "local/offer-17")
        assert not re.search(key, "local/offer 17")
