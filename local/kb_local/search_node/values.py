"""BSON values as the search index sees them: vectors, filter values, and where they are in a document."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from bson import Binary, ObjectId
from bson.binary import VECTOR_SUBTYPE
from bson.datetime_ms import DatetimeMS
from numpy.typing import NDArray

Vector = NDArray[np.float32]
# A value with its type beside it, because in BSON true is not 1, while 1 and 1.0 are one value.
FilterKey = tuple[str, Any]

UUID_SUBTYPE = 4
FLOAT32_VECTOR = 0x27
VECTOR_HEADER_BYTES = 2
# An index cuts longer strings, in UTF-16 units, as it cuts terms. A query is not cut.
LONGEST_TERM = 32766 // 4
UTF_16_BYTES = 2


def vector_of(value: object) -> Vector | None:
    """Return a float32 vector from a BSON array of numbers or a BinData float32 vector; None for anything else."""
    if isinstance(value, Binary):
        data = bytes(value)
        if value.subtype != VECTOR_SUBTYPE or data[:1] != bytes([FLOAT32_VECTOR]):
            return None
        if (len(data) - VECTOR_HEADER_BYTES) % 4:
            return None
        return np.frombuffer(data, "<f4", offset=VECTOR_HEADER_BYTES)
    if isinstance(value, list) and all(_is_number(element) for element in value):
        with np.errstate(over="ignore"):
            return np.asarray(value, np.float32)
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def filter_key(value: object) -> FilterKey | None:
    """Return the key under which a value is found by filters; None for a value that can't be filtered by."""
    key: FilterKey | None = None
    match value:
        case None:
            key = ("null", 0)
        case bool():
            key = ("boolean", value)
        case int() | float():
            key = None if math.isnan(value) else ("number", value)
        case str():
            key = ("string", value)
        case ObjectId():
            key = ("objectId", value)
        case DatetimeMS():
            key = ("date", int(value))
        case Binary(subtype=4):
            key = ("uuid", bytes(value))
    return key


def stored_key(value: object) -> FilterKey | None:
    """Return the key under which an index files a value."""
    key = filter_key(value)
    if key is None or key[0] != "string" or len(key[1]) * UTF_16_BYTES <= LONGEST_TERM:
        return key
    units = key[1].encode("utf-16-le", "surrogatepass")[: LONGEST_TERM * UTF_16_BYTES]
    return "string", units.decode("utf-16-le", "ignore")


def values_at(document: Mapping[str, Any], path: str) -> list[Any]:
    """Return all values at a dotted path as MQL sees them: an array stands for its elements."""
    found: list[Any] = [document]
    for name in path.split("."):
        found = [
            holder[name]
            for value in found
            for holder in (value if isinstance(value, list) else [value])
            if isinstance(holder, dict) and name in holder
        ]
    return found


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path through documents only; None when there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
