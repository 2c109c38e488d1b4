"""Encodes arguments as the JSON and the query parameters that the API reads."""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode a request body. Models of `kb_contracts.api` and times may be anywhere in it.

    Raises:
        TypeError: a value is neither, nor what JSON has.
        ValueError: a number is infinite or not a number, or a time has no offset.
    """
    return json.dumps(body, default=_encode, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def encode_parameter(value: object) -> str:
    """Encode the value of a query parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _encode_time(value) if isinstance(value, datetime) else str(value)


def _encode(value: object) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        case datetime():
            return _encode_time(value)
        case Enum():
            return value.value
        case Mapping():
            return dict(value)
        case frozenset() | set():
            return sorted(value)
    raise TypeError(f"a value of type {type(value).__name__} can't be sent as JSON")


def _encode_time(time: datetime) -> str:
    if time.tzinfo is None:
        raise ValueError("a time needs its offset, such as datetime.now(UTC)")
    return time.isoformat()


def encode_metadata(value: Any) -> Any:
    """Return metadata or a filter with its times in the form in which both have them: `{"$date": ...}`."""
    match value:
        case datetime():
            return {"$date": _encode_time(value)}
        case Mapping():
            return {key: encode_metadata(each) for key, each in value.items()}
        case list() | tuple():
            return [encode_metadata(each) for each in value]
    return value
