"""Reads an event in every form in which producers send it.

The Kafka binding of CloudEvents has two: in structured mode the value is the whole event in JSON, in binary mode the
attributes are headers and the value is `data`. Libraries and connectors wrap events further. A wrapping that has only
one meaning is removed, any other is named with its remedy.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kb_contracts import strict_json
from kb_contracts.errors import Rejected
from kb_contracts.reasons.json_text import NotJson, NotUtf8, is_base64_of_json, to_text
from kb_contracts.reasons.sentences import letters_of
from kb_contracts.reasons.shown_values import cut

EventHeaders = Sequence[tuple[str, bytes | None]]
RawEvent = dict[str, Any]
"""Attributes of an event by name, with its `data`; nothing of it is checked."""

_CLOUDEVENTS: Final = "application/cloudevents"
_BATCH: Final = "application/cloudevents-batch"
_ATTRIBUTE: Final = re.compile(r"ce[_-](.+)", re.IGNORECASE | re.DOTALL)
"""Header with an attribute: `ce_id`, and `ce-id` of bridges from HTTP."""
_CONTENT_TYPES: Final = ("content-type", "contenttype")
"""The second one is that of Spring Cloud Stream."""
_NO_ATTRIBUTES: Final = frozenset({"data", "data_base64"})
"""In binary mode the value alone is the data."""
_REQUIRED: Final = ("specversion", "id", "source", "type")
_MEDIA_TYPE: Final = re.compile(
    r"""[\w!#$&^.+-]+/([\w!#$&^.+-]+)((?:\s*;\s*[\w!#$&^.+-]+\s*=\s*(?:[^\s;"]+|"[^"]*"))*)"""
)
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*"?([^\s;"]+)""", re.IGNORECASE)
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_SCHEMA_IDS: Final[Sequence[tuple[bytes, int]]] = ((b"\x00", 5), (b"\x00", 9), (b"\x03\x00", 18))
"""First bytes and lengths of ids of a schema in front of a value: those of Confluent, Apicurio and AWS Glue."""
_CARRIERS: Final = frozenset(
    {"data", "payload", "before", "after", "detail", "message", "value", "body", "event", "eventdata"}
)
"""Fields in which other systems carry an event or its data, in small letters."""
_DEEPEST: Final = 4
"""Number of wrappings that are removed. More have never been seen."""
_FOREIGN_FORMS: Final[Sequence[tuple[frozenset[str], str]]] = (
    (
        frozenset({"before", "after", "op"}),
        "it is a change event of Debezium: send the event by its outbox router, with table.expand.json.payload=true",
    ),
    (frozenset({"detail-type", "detail"}), "it is an event of Amazon EventBridge: send its `detail` alone"),
    (frozenset({"Type", "MessageId", "Message"}), "it is a message of Amazon SNS: send its `Message` alone"),
    (frozenset({"message", "subscription"}), "it is a push message of Google Pub/Sub: send its decoded `data` alone"),
)


def read_event(value: bytes | None, headers: EventHeaders = ()) -> RawEvent:
    """Return the event that a record holds.

    Raises:
        Rejected: `no-value`, `not-utf8`, `not-json`, or `bad-envelope` for a form that is not an event's.
    """
    content_type = find_content_type(headers)
    if content_type is not None:
        _refuse_other_formats(content_type)
    if value is None:
        raise Rejected("no-value", "the message has no value; publish document.deleted.v1 instead of a tombstone")
    document = _parse(value)
    if not _is_event(document) and not _names_event_format(content_type):
        attributes = _read_attributes(headers)
        if attributes:
            return _unwrap(_binary_event(attributes, document, content_type))
    return _unwrap(_remove_wrappings(document))


def read_events_leniently(value: bytes | None, headers: EventHeaders = ()) -> Iterator[RawEvent]:
    """Yield what can be read of an event that may have any form, or of each event of a batch. Never raises."""
    try:
        event = read_event(value, headers)
    except Rejected:
        yield from _read_refused_events(value, headers)
    else:
        data = event.get("data")
        is_named = isinstance(data, dict) and find_field(data, "organization_id") is not None
        yield event if is_named else {**event, "data": _find_data(event)}


def _read_refused_events(value: bytes | None, headers: EventHeaders) -> Iterator[RawEvent]:
    attributes = _read_clear_attributes(headers)
    try:
        document = _parse(value or b"")
    except Rejected:
        if attributes:
            yield attributes
        return
    for item in document if isinstance(document, list) else [document]:
        inner = _remove_wrappings(item)
        try:
            yield _unwrap(inner)
        except Rejected:
            if isinstance(inner, dict):
                own = {name: inner[name] for name in _REQUIRED if name in inner} if _is_event(inner) else {}
                yield {**attributes, **own, "data": _find_data(inner)}
            else:
                yield attributes


def _find_data(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a refused document that names an organization; an empty one if none does, or its parts differ.

    Only fields that carry events are looked into: a text or a name may be from anybody.
    """
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        parts = [each for each in map(_remove_wrappings, level) if isinstance(each, dict)]
        owners = [(find_field(each, "organization_id"), each) for each in parts]
        named = [(owner, each) for owner, each in owners if owner is not None]
        if named:
            return named[0][1] if all(owner == named[0][0] for owner, _ in named) else {}
        level = [value for each in parts for name, value in each.items() if letters_of(name) in _CARRIERS]
    return {}


def find_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field, also of one whose name is written in another way, such as `organizationId`."""
    if name in fields:
        return fields[name]
    letters = letters_of(name)
    return next((value for each, value in fields.items() if letters_of(each) == letters), None)


def _read_clear_attributes(headers: EventHeaders) -> RawEvent:
    """Read the attributes in headers that can be read and occur with one value."""
    attributes: RawEvent = {}
    for name in _REQUIRED:
        with suppress(Rejected):
            attributes |= _read_attributes(
                [each for each in headers if each[0].lower() in (f"ce_{name}", f"ce-{name}")]
            )
    return attributes


def find_content_type(headers: EventHeaders) -> str | None:
    """Return the media type of a record as its headers say it; None if they don't."""
    for name, value in headers:
        if name.lower() in _CONTENT_TYPES and value:
            return _unquote(value.decode("utf-8", "replace")).strip()
    return None


def headers_of(event: RawEvent, headers: EventHeaders) -> Mapping[str, str]:
    """Return the attributes of an event that its record's headers have, each with the name of its header."""
    names: dict[str, str] = {}
    for header, value in headers:
        attribute = _ATTRIBUTE.fullmatch(header)
        name = "datacontenttype" if header.lower() in _CONTENT_TYPES else attribute[1].lower() if attribute else ""
        if value is not None and event.get(name) == _unquote(value.decode("utf-8", "replace")).strip():
            names[name] = header
    return names


def remove_schema_id(value: bytes) -> bytes:
    """Return JSON without the id that serializers of a schema registry put in front of it; all else as it is."""
    for first, length in _SCHEMA_IDS:
        if value.startswith(first) and value[length : length + 1] in (b"{", b'"'):
            return value[length:]
    return value


def check_json_media_type(media_type: str) -> str:
    """Return a media type of JSON. Raises ValueError if it is of something else, or of JSON that is not UTF-8."""
    parsed = _MEDIA_TYPE.fullmatch(media_type.strip())
    if parsed is None:
        raise ValueError("must be a media type of JSON, such as application/json")
    subtype = parsed[1].lower()
    if subtype != "json" and not subtype.endswith("+json"):
        found = media_type.partition(";")[0].strip()
        raise ValueError(f"must be application/json or another media type of JSON, not {cut(found)}: send data as JSON")
    charset = _CHARSET.search(parsed[2])
    if charset is not None and charset[1].lower() not in _UTF_8:
        raise ValueError("must name the charset utf-8 or none: send UTF-8")
    return media_type


def _refuse_other_formats(content_type: str) -> None:
    kind = content_type.lower()
    if kind.startswith(_BATCH):
        raise _refuse_batch()
    if kind.startswith(_CLOUDEVENTS):
        try:
            check_json_media_type(kind if "+" in kind else kind.replace("events", "events+json", 1))
        except ValueError as error:
            raise Rejected("bad-envelope", f"content-type: {error}") from None


def _refuse_batch() -> Rejected:
    return Rejected("bad-envelope", "the value is a batch of events; publish each event as a record of its own")


def _names_event_format(content_type: str | None) -> bool:
    return content_type is not None and content_type.lower().startswith(_CLOUDEVENTS)


def _parse(value: bytes) -> Any:
    """Parse a value in JSON, also behind a byte order mark or the id of a schema."""
    try:
        return strict_json.parse_text(to_text(remove_schema_id(value)), any_number=True)
    except NotUtf8 as error:
        raise Rejected("not-utf8", f"the value is not JSON: {error}") from None
    except NotJson as error:
        raise Rejected("not-json", f"the value is not JSON: {error}") from None


def _read_attributes(headers: EventHeaders) -> RawEvent:
    """Read the attributes of binary mode. A null header is none."""
    attributes: RawEvent = {}
    for header, value in headers:
        named = _ATTRIBUTE.fullmatch(header)
        if named is None or value is None:
            continue
        name = named[1].lower()
        if name in _NO_ATTRIBUTES:
            continue
        try:
            text = _unquote(value.decode().strip())
        except UnicodeDecodeError:
            raise Rejected("bad-envelope", f"the header ce_{_shown(name)} is not UTF-8") from None
        if attributes.setdefault(name, text) != text:
            raise Rejected("bad-envelope", f"the header ce_{_shown(name)} occurs twice with different values")
    return attributes


def _binary_event(attributes: RawEvent, data: Any, content_type: str | None) -> RawEvent:
    missing = [f"ce_{name}" for name in _REQUIRED if not attributes.get(name)]
    if missing:
        raise Rejected("bad-envelope", f"binary mode: these headers are missing: {', '.join(missing)}")
    if content_type is not None:
        attributes = {**attributes, "datacontenttype": content_type}
    return {**attributes, "data": data}


def _remove_wrappings(document: Any) -> Any:
    """Remove what is around an event or its data: a JSON text, the schema of Kafka Connect."""
    for _ in range(_DEEPEST):
        match document:
            case str():
                try:
                    document = strict_json.parse_text(document, any_number=True)
                except ValueError:
                    break
            case {"schema": _, "payload": payload} if len(document) == len(("schema", "payload")):
                document = payload
            case _:
                break
    return document


def _unwrap(event: Any) -> RawEvent:
    """Return an event with its data; of an event within an event the inner one."""
    for _ in range(_DEEPEST):
        if not isinstance(event, dict):
            break
        data = _remove_wrappings(_data_of(event))
        if not _is_event(data):
            _refuse_foreign_form(event)
            return _with_data(event, data, was_wrapped=data is not event.get("data"))
        event = data
    if isinstance(event, list):
        raise _refuse_batch()
    raise Rejected("bad-envelope", f"the value is {_kind_of(event)}; publish one CloudEvent, which is a JSON object")


def _with_data(event: Mapping[str, Any], data: Any, *, was_wrapped: bool) -> RawEvent:
    """Return the event with its data, without attributes that are null, which are absent ones."""
    attributes = {name: value for name, value in event.items() if value is not None and not name.startswith("data")}
    if not was_wrapped and event.get("datacontenttype") is not None:
        # That of wrapped data is the type of the wrapping, such as text/plain.
        attributes["datacontenttype"] = event["datacontenttype"]
    return attributes if data is None else {**attributes, "data": data}


def _data_of(event: Mapping[str, Any]) -> Any:
    encoded = event.get("data_base64")
    if encoded is None:
        return event.get("data")
    if event.get("data") is not None:
        raise Rejected("bad-envelope", "the event has data and data_base64; send one of them")
    try:
        return _parse(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise Rejected("bad-envelope", "data_base64 is not base64; send the object as `data`") from None
    except Rejected:
        raise Rejected("bad-envelope", "data_base64 holds no JSON; send the object as `data`") from None


def _refuse_foreign_form(event: Mapping[str, Any]) -> None:
    if _is_event(event):
        return
    for names, remedy in _FOREIGN_FORMS:
        if names <= event.keys():
            raise Rejected("bad-envelope", remedy)
    if "organization_id" in event or ("data" not in event and find_field(event, "organization_id") is not None):
        raise Rejected(
            "bad-envelope",
            "the value is the data of an event without its attributes; put it into `data` of a CloudEvent, or send the "
            f"headers {', '.join(f'ce_{name}' for name in _REQUIRED)} with it",
        )


def _is_event(document: Any) -> bool:
    """Return whether a document has what makes it an event, so that it is not the data of one."""
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        return False
    if "organization_id" in document and "organization_id" not in _fields_of(document.get("data")):
        # It is the data of an event, with fields of its own.
        return False
    has_data = "data" in document or "data_base64" in document
    return has_data and ("specversion" in document or "source" in document)


def _fields_of(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}


def _unquote(text: str) -> str:
    """Return a header without the quotation marks that some libraries put around every text."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            unquoted = json.loads(text)
        except ValueError:
            return text
        return str(unquoted)
    return text


def _kind_of(document: Any) -> str:
    match document:
        case None:
            return "null"
        case str():
            return "a text with JSON in Base64" if is_base64_of_json(document) else "a JSON text"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
    return "an event within many others"


def _shown(name: str) -> str:
    return name if re.fullmatch(r"[a-z0-9]{1,20}", name) else "?"
