"""The envelope: CloudEvents 1.0, JSON structured mode, UTF-8 without ASCII escapes."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from uuid import uuid4

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from kb_contracts.errors import Rejected

CONTENT_TYPE: Final = "application/cloudevents+json"
MAX_EVENT_BYTES: Final = 1_000_000
"""Limit of an encoded event. Larger texts go to kb-api first and are named by `text_ref`."""


class Payload(BaseModel):
    """The `data` of one message type. Fields unknown to this version are ignored: contracts grow."""

    # The words under a field stand in its JSON Schema, too.
    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    TYPE: ClassVar[str]


P = TypeVar("P", bound=Payload)

_PLAIN = re.compile(r"[A-Za-z0-9_$.,()\[\]-]{1,64}")


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside of the calendar in UTC") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time with its offset, kept in UTC: MongoDB does, and at either end of the calendar not every time has one."""


class Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(min_length=1, max_length=256)
    source: str = Field(min_length=1, max_length=512)
    type: str = Field(min_length=1, max_length=128)
    time: Moment
    datacontenttype: Literal["application/json"] = "application/json"
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


def decode(value: bytes | None, types: Mapping[str, type[P]]) -> tuple[Envelope, P]:
    """Return envelope and payload of a message of one of `types`.

    Raises:
        Rejected: for anything else whatever, with a reason slug and a detail that quotes no text.
    """
    if value is None:
        raise Rejected("no-value", "the message has no value; publish document.deleted.v1 instead of a tombstone")
    if len(value) > MAX_EVENT_BYTES:
        raise Rejected(
            "too-large", f"{len(value)} bytes; at most {MAX_EVENT_BYTES}: store the text first and send its text_ref"
        )
    try:
        envelope = Envelope.model_validate(json.loads(value.decode(), parse_constant=_refuse_constant))
    except UnicodeDecodeError as error:
        raise Rejected("not-utf8", f"byte {error.start} is not UTF-8") from None
    except ValidationError as error:
        raise Rejected("bad-envelope", describe(error)) from None
    except (ValueError, RecursionError):
        raise Rejected("not-json", "the value is not a JSON document") from None
    model = types.get(envelope.type)
    if model is None:
        raise Rejected("unknown-type", f"type must be one of {', '.join(sorted(types))}")
    try:
        return envelope, model.model_validate(envelope.data)
    except ValidationError as error:
        raise Rejected("bad-data", describe(error)) from None


def describe(error: ValidationError) -> str:
    """Say which fields are wrong and how, without repeating what they hold."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{_where(problem['loc'])}: {problem['msg']}" for problem in problems[:10])


def _where(location: tuple[int | str, ...]) -> str:
    """Return the path of a field, without keys that the sender made up: they may be any text and are not repeated."""
    parts = (str(part) for part in location)
    return ".".join(part if _PLAIN.fullmatch(part) else "?" for part in parts) or "value"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
