"""The envelope: CloudEvents 1.0. This system sends JSON in structured mode, in UTF-8 without ASCII escapes."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from uuid import uuid4

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from kb_contracts.errors import Rejected
from kb_contracts.event_forms import EventHeaders, RawEvent, check_json_media_type, headers_of, read_event
from kb_contracts.reasons.field_reasons import describe
from kb_contracts.reasons.sentences import unknown_choice
from kb_contracts.text_rules import storable

CONTENT_TYPE: Final = "application/cloudevents+json"
MAX_EVENT_BYTES: Final = 1_000_000
"""Limit of an encoded event. Larger texts go to kb-api first and are named by `text_ref`."""


class Payload(BaseModel):
    """The `data` of one message type. Fields unknown to this version are ignored: contracts grow."""

    # The words under a field stand in its JSON Schema, too.
    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    TYPE: ClassVar[str]


P = TypeVar("P", bound=Payload)

RECEIVED: Final = {"received": True}
"""Validation context of what others have sent. They can't correct it any more, so less is refused than of our own."""


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside of the calendar in UTC") from None


def _plausible(given: Any) -> Any:
    """Refuse a number of seconds or milliseconds that is most likely none: a year, a day, a date without hyphens."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number and not (isinstance(given, str) and _NUMBER.fullmatch(given)):
        return given
    try:
        moment = _NUMERIC_TIME.validate_python(given)
    except ValidationError:
        # The reason is that of any wrong time.
        return given
    if not _EARLIEST_NUMBER <= moment < _LATEST_NUMBER:
        raise ValueError("must be a date-time such as 2026-01-31T12:00:00Z, and not a number of another kind")
    return given


_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]*)?")
_NUMERIC_TIME: Final = TypeAdapter(AwareDatetime)
_EARLIEST_NUMBER: Final = datetime(1980, 1, 1, tzinfo=UTC)
_LATEST_NUMBER: Final = datetime(2100, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime, AfterValidator(_in_utc), BeforeValidator(_plausible)]
"""A time with its offset, kept in UTC: MongoDB does, and at either end of the calendar not every time has one.

A number, also as text, counts seconds or milliseconds since 1970, if that gives a time from 1980 to 2099.
"""


class Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, Field(min_length=1, max_length=256), AfterValidator(storable)]
    source: Annotated[str, Field(min_length=1, max_length=512), AfterValidator(storable)]
    type: str = Field(min_length=1, max_length=128)
    time: Moment
    datacontenttype: Annotated[str, AfterValidator(check_json_media_type)] = "application/json"
    data: dict[str, Any]


def encode(payload: Payload, *, source: str, event_id: str | None = None, time: datetime | None = None) -> bytes:
    """Wrap `payload` for the wire."""
    envelope = Envelope(
        id=event_id or str(uuid4()),
        source=source,
        type=payload.TYPE,
        time=time or datetime.now(UTC),
        data=payload.model_dump(mode="json", by_alias=True, exclude_none=True),
    )
    return json.dumps(envelope.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")).encode()


def decode(
    value: bytes | None,
    types: Mapping[str, type[P]],
    *,
    headers: EventHeaders = (),
    written_at: datetime | None = None,
) -> tuple[Envelope, P]:
    """Return envelope and payload of a message of one of `types`.

    Args:
        value: the event in structured mode, or its data in binary mode.
        types: payloads by type of the event.
        headers: of the record, with the attributes in binary mode.
        written_at: time of the record, which is that of an event without one.

    Raises:
        Rejected: for anything else whatever, with a reason slug and a detail that quotes no text.
    """
    if value is not None and len(value) > MAX_EVENT_BYTES:
        raise Rejected(
            "too-large",
            f"the value must have at most {MAX_EVENT_BYTES:,} bytes, not {len(value):,}: store the text first and send "
            "its text_ref",
        )
    event = read_event(value, headers)
    if written_at is not None:
        event.setdefault("time", written_at)
    try:
        envelope = Envelope.model_validate(event)
    except ValidationError as error:
        raise Rejected("bad-envelope", _describe_envelope(error, event, headers)) from None
    model = types.get(envelope.type)
    if model is None:
        raise Rejected("unknown-type", _describe_types(envelope.type, types))
    try:
        return envelope, model.model_validate(envelope.data, context=RECEIVED)
    except ValidationError as error:
        raise Rejected("bad-data", describe(error, model, whole="data")) from None


def _describe_envelope(error: ValidationError, event: RawEvent, headers: EventHeaders) -> str:
    reason = describe(error, Envelope, names=headers_of(event, headers))
    return reason if "time" in event else f"{reason} (nor has the record a timestamp that could stand for the time)"


def _describe_types(found: str, types: Mapping[str, type[P]]) -> str:
    reason = f"type: {unknown_choice(found, sorted(types))}"
    if found.startswith("com.dapr."):
        return f"{reason}; Dapr sends its own type unless the metadata cloudevent.type names one"
    return reason
