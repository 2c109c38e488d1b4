"""Reads one record of a batch in the format of Kafka since 0.11, and trusts no length in it."""

from dataclasses import dataclass
from typing import Final

from kb_shared.kafka_connection.batch_header import LOG_APPEND_TIME, BatchHeader

MAX_KEY_AND_HEADERS_BYTES: Final = 8_000_000
"""Size of key and headers of a record, which have to fit into one row of MongoDB as a dead letter."""
MAX_RECORD_HEADERS: Final = 10_000
"""Headers of a record. An empty one has two bytes in a batch, and takes forty times as many in memory."""
_BYTES_OF_A_STORED_HEADER: Final = 32
_LONGEST_VARINT: Final = 10


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """Record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class TooLarge(ValueError):
    """A record has more headers or bytes of them than are kept; `str()` says how many are."""


def read_record(header: BatchHeader, data: bytes) -> tuple[BatchRecord, bool]:
    """Read one record; also return whether the client library would read the same.

    Raises:
        IndexError, ValueError: a length leads beyond the record, or the record is not at its end after all its parts.
    """
    # The client library reads the attributes, which have no use yet, as if they could be longer than one byte.
    is_usual = data[0] < 0x80
    timestamp_delta, at = read_varint(data, 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at)
    value, at = _read_bytes(data, at)
    count, at = read_varint(data, at)
    if count < 0:
        raise ValueError("number of headers")
    if count > MAX_RECORD_HEADERS:
        raise TooLarge(f"the record has {count} headers, more than the {MAX_RECORD_HEADERS} that are kept")
    size = _check_size(len(key or b""))
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise ValueError("a header without a name")
        header_value, at = _read_bytes(data, at)
        size = _check_size(size + len(name) + len(header_value or b"") + _BYTES_OF_A_STORED_HEADER)
        try:
            headers.append((name.decode(), header_value))
        except UnicodeDecodeError:
            headers.append((name.decode(errors="backslashreplace"), header_value))
            is_usual = False
    if at != len(data):
        raise ValueError("bytes after the headers")
    timestamp = header.max_timestamp_ms
    if not header.attributes & LOG_APPEND_TIME:
        timestamp = header.first_timestamp_ms + timestamp_delta
    # A time outside of 64 bits is none.
    timestamp = timestamp if -(2**63) <= timestamp < 2**63 else -1
    return BatchRecord(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), is_usual


def _check_size(key_and_headers_bytes: int) -> int:
    if key_and_headers_bytes > MAX_KEY_AND_HEADERS_BYTES:
        raise TooLarge(f"key and headers have more than the {MAX_KEY_AND_HEADERS_BYTES} bytes that are kept")
    return key_and_headers_bytes


def find_offset(header: BatchHeader, data: bytes) -> int | None:
    """Return the offset of a record whose other parts may be damaged; None if it can't be read."""
    try:
        _, at = read_varint(data, 1)
        return header.base_offset + read_varint(data, at)[0]
    except (IndexError, ValueError):
        return None


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and where it ends.

    Raises:
        IndexError, ValueError: there is none.
    """
    first = data[at]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    result = 0
    for index in range(_LONGEST_VARINT):
        byte = data[at + index]
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if result >= 2**64:
                break
            return (result >> 1) ^ -(result & 1), at + index + 1
    raise ValueError("a number of more than 64 bits")


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length == -1:
        return None, at
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes")
    return data[at:end], end
