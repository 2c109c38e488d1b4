"""JSON Schema of every message type, and an AsyncAPI 3 document over them: `python -m kb_contracts.schemas DIR`.

Written from the models, for upstream services in any language. A test compares docs/schemas with what this writes.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, create_model
from pydantic.json_schema import GenerateJsonSchema

from kb_contracts import topics
from kb_contracts.cloudevents import CONTENT_TYPE, Envelope, Payload
from kb_contracts.commands import INDEX_REQUESTS
from kb_contracts.documents import ABOUT_DOCUMENTS, DOCUMENT_EVENTS
from kb_contracts.identifiers import IDENTIFIER_PATTERN
from kb_contracts.outcomes import KB_EVENTS, USAGE
from kb_contracts.topics import Topic

ASYNCAPI_FILE: Final = "asyncapi.json"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_KAFKA_BINDING: Final = "0.5.0"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TRACE_HEADER: Final = {"type": "string", "description": "W3C trace context, carried on to all that follows."}
_HEADERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"content-type": {"type": "string", "const": CONTENT_TYPE}, "traceparent": _TRACE_HEADER},
}
_HEADERS_OF_UPSTREAMS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "content-type": {"type": "string", "pattern": r"^application/cloudevents\+json(\s*;.*)?$"},
        "traceparent": _TRACE_HEADER,
    },
    "description": "Structured mode: the value is the whole event. All other headers are ignored.",
}
_KEY_OF_TAGS: Final = "{organization_id}/tag/{tag_id}"
_BINARY: Final = ".binary"
"""End of the name of a message in binary mode."""


@dataclass(frozen=True, slots=True)
class _Channel:
    topic: Topic
    description: str
    key: str
    types: Iterable[type[Payload]]
    actions: tuple[Literal["send", "receive"], ...]
    """Operations of this system."""


_CHANNELS: Final = (
    _Channel(
        topics.DOCUMENT_EVENTS,
        "Facts about documents and tags, published by upstream services.",
        f"{{organization_id}}/{{document_id}}; of tags {_KEY_OF_TAGS}",
        DOCUMENT_EVENTS.values(),
        ("receive",),
    ),
    _Channel(
        topics.KNOWLEDGE_DOCUMENT_EVENTS,
        "Internal: the same facts about the documents of entries, whose ids begin with `entry-`.",
        "{organization_id}/entry-{entry_id}",
        DOCUMENT_EVENTS.values(),
        ("send", "receive"),
    ),
    _Channel(
        topics.INDEX_REQUESTS,
        "Internal: requests to look at a document in a knowledge base.",
        "{kb_id}/{document_id}",
        INDEX_REQUESTS.values(),
        ("send", "receive"),
    ),
    _Channel(
        topics.INDEX_BACKFILL,
        "Internal: the same for bulk work.",
        "{kb_id}/{document_id}",
        INDEX_REQUESTS.values(),
        ("send", "receive"),
    ),
    _Channel(
        topics.KB_EVENTS,
        "Outcomes of documents, knowledge bases and budgets. Messages about one document in a knowledge base are in "
        "order, and so are messages about the knowledge base itself; each may come twice, with the same `id`.",
        "{organization_id}/{kb_id}; of rejected events and budgets {organization_id}",
        KB_EVENTS.values(),
        ("send",),
    ),
    _Channel(
        topics.USAGE,
        "What was charged. Count each `ledger_id` once.",
        "{organization_id}",
        USAGE.values(),
        ("send",),
    ),
)


class _WithoutTitles(GenerateJsonSchema):
    """Titles of fields would only repeat their names."""

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each message, envelope included, by type."""
    payloads = {payload.TYPE: payload for channel in _CHANNELS for payload in channel.types}
    return {name: _schema(payload) for name, payload in sorted(payloads.items())}


def _schema(payload: type[Payload]) -> dict[str, Any]:
    event = create_model(
        f"{payload.__name__}Event",
        __base__=Envelope,
        type=(str, Field(json_schema_extra={"const": payload.TYPE})),
        data=(payload, ...),
    )
    schema = event.model_json_schema(schema_generator=_WithoutTitles)
    # Reading forgives what CloudEvents demands of senders.
    # An event of an upstream without a time has that of its record.
    time = () if payload.TYPE in DOCUMENT_EVENTS else ("time",)
    schema["required"] = ["specversion", "id", "source", "type", *time, "data"]
    return {"$schema": _DIALECT, **schema, "description": payload.__doc__ or ""}


def asyncapi() -> dict[str, Any]:
    """Describe which topic carries which messages; payloads refer to the schema files beside it."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Knowledge bases",
            "version": "1.0.0",
            "description": "CloudEvents 1.0 in JSON on Kafka. What this system sends is in structured mode; what it "
            "receives from upstream services may be in binary mode, too. Records are compressed by any codec of Kafka: "
            f"{', '.join(_CODECS)}. Topics may carry a prefix.",
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": {channel.topic.name: _channel(channel) for channel in _CHANNELS}
        | {topics.DEAD_LETTERS.name: _dead_letters()},
        "operations": {
            f"{action}.{channel.topic.name}": {"action": action, "channel": {"$ref": _pointer(channel.topic)}}
            for channel in _CHANNELS
            for action in channel.actions
        }
        | {
            f"send.{topics.DEAD_LETTERS.name}": {
                "action": "send",
                "channel": {"$ref": _pointer(topics.DEAD_LETTERS)},
            }
        },
        "components": {
            "messages": {name: _message(name) for name in json_schemas()}
            | {f"{name}{_BINARY}": _binary_message(payload) for name, payload in sorted(DOCUMENT_EVENTS.items())}
        },
    }


def _message(name: str) -> dict[str, Any]:
    of_upstreams = name in DOCUMENT_EVENTS
    message = {
        "name": name,
        "contentType": CONTENT_TYPE,
        "headers": _HEADERS_OF_UPSTREAMS if of_upstreams else _HEADERS,
        "payload": {"$ref": f"./{name}.json"},
    }
    return message | {"bindings": _key_of_upstreams(name)} if of_upstreams else message


def _binary_message(payload: type[Payload]) -> dict[str, Any]:
    """Describe an event whose attributes are headers and whose value is `data` alone."""
    text = {"type": "string", "minLength": 1}
    attributes = {
        "ce_specversion": {"const": "1.0"},
        "ce_id": text,
        "ce_source": text,
        "ce_type": {"const": payload.TYPE},
    }
    others = {
        "ce_time": {"type": "string", "format": "date-time"},
        "content-type": {"type": "string", "pattern": r"^application/([^;]+\+)?json(\s*;.*)?$"},
        "traceparent": _TRACE_HEADER,
    }
    return {
        "name": payload.TYPE,
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "properties": attributes | others,
            "required": list(attributes),
            "description": "Binary mode: attributes of the event are headers. All other headers are ignored.",
        },
        "payload": {"$ref": f"./{payload.TYPE}.json#/$defs/{payload.__name__}"},
        "bindings": _key_of_upstreams(payload.TYPE),
    }


def _key_of_upstreams(name: str) -> dict[str, Any]:
    identifier = IDENTIFIER_PATTERN.strip("^$")
    form, about = ("{organization_id}/{document_id}", "") if name in ABOUT_DOCUMENTS else (_KEY_OF_TAGS, "tag/")
    key = {"type": "string", "pattern": f"^{identifier}/{about}{identifier}$", "description": form}
    return {"kafka": {"key": key, "bindingVersion": _KAFKA_BINDING}}


def _pointer(topic: Topic) -> str:
    return f"#/channels/{topic.name}"


def _channel(channel: _Channel) -> dict[str, Any]:
    names = [payload.TYPE for payload in channel.types]
    if channel.topic == topics.DOCUMENT_EVENTS:
        names += [f"{name}{_BINARY}" for name in names]
    return {
        "address": channel.topic.name,
        "description": f"{channel.description} Key: {channel.key}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": _kafka(channel.topic),
    }


def _dead_letters() -> dict[str, Any]:
    headers = {
        "x-reason": "slug of the reason why the record can't be used",
        "x-detail": "what exactly is wrong, quoting nothing",
        "x-topic": "where it came from; likewise x-partition, x-offset, x-timestamp-ms",
        "x-dead-letter-id": "by which it can be sent again: POST .../dead-letters/{id}/redrive",
        "x-redriven-from": "of a record that was sent again: the letter it was then",
        "x-body-ref": "of a body over 1 MB, which stands in `dead_letter_bodies`; the value is then empty",
    }
    properties = {name: {"type": "string", "description": meaning} for name, meaning in headers.items()}
    return {
        "address": topics.DEAD_LETTERS.name,
        "description": "Records that can't be used, byte for byte, with their key.",
        "messages": {"dead_letter": {"payload": {}, "headers": {"type": "object", "properties": properties}}},
        "bindings": _kafka(topics.DEAD_LETTERS),
    }


def _kafka(topic: Topic) -> dict[str, Any]:
    configuration = {
        "retention.ms": int(topic.retention.total_seconds() * 1000),
        "max.message.bytes": topic.max_message_bytes,
    }
    binding = {"topic": topic.name, "partitions": topic.partitions, "topicConfiguration": configuration}
    return {"kafka": {**binding, "bindingVersion": _KAFKA_BINDING}, "x-codecs": list(_CODECS)}


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    documents = {f"{name}.json": schema for name, schema in json_schemas().items()} | {ASYNCAPI_FILE: asyncapi()}
    return {name: json.dumps(document, indent=2, ensure_ascii=False) + "\n" for name, document in documents.items()}


def main(directory: Path) -> None:
    """Write all files, and remove what no type has any more."""
    directory.mkdir(parents=True, exist_ok=True)
    written = files()
    for stale in {path.name for path in directory.glob("*.json")} - written.keys():
        (directory / stale).unlink()
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
