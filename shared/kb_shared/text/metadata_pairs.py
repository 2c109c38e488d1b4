"""Encodes metadata as `key=<type>:<value>` strings, so that one filter path of the index serves equality on any key."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

_LONGEST_BYTES: Final = 256


def metadata_pair(key: str, value: Any) -> str:
    """Return the string of one pair. Equal values of different types, such as 1 and 1.0, give equal strings."""
    letter, canonical = _canonical(value)
    encoded = canonical.encode()
    if len(encoded) > _LONGEST_BYTES:
        canonical = "sha256-" + hashlib.sha256(encoded).hexdigest()
    return f"{key}={letter}:{canonical}"


def metadata_pairs(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(metadata_pair(key, value) for key, value in metadata.items()))


def _canonical(value: Any) -> tuple[str, str]:
    match value:
        case bool():
            return "b", "true" if value else "false"
        case int():
            return "n", str(value)
        case float():
            return "n", str(int(value)) if value.is_integer() else repr(value)
        case str():
            return "s", value
        case datetime():
            return "d", str(round(value.timestamp() * 1000))
    raise TypeError(f"metadata can't hold a {type(value).__name__}")
