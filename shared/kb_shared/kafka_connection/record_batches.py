"""Reads batches of records in the format of Kafka, and trusts nothing in them.

The client library reads beyond the end of a batch whose lengths are wrong. It then returns other memory as a record, or
the process ends with a segmentation fault. So it gets only batches that were read here before.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from aiokafka.record.util import calc_crc32c

from kb_shared.kafka_connection.codecs import DecompressionFailed, decompress
from kb_shared.kafka_connection.old_batches import OldBatchUnreadable, read_old_records

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Size of a decompressed batch. Kafka limits the compressed size, which says nothing about it."""
MAX_BATCH_RECORDS: Final = 100_000
MAX_KEY_AND_HEADERS_BYTES: Final = 8_000_000
"""Size of key and headers of a record, which have to fit into one row of MongoDB as a dead letter."""

_PREFIX: Final = struct.Struct(">qi")
"""Base offset, and the length of what follows."""
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_FROM: Final = 21
"""Position from which the checksum covers a batch: neither its offset nor its length nor its format."""
_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_BYTES_OF_A_STORED_HEADER: Final = 32
_LONGEST_VARINT: Final = 10
_CONTROL_KEY_BYTES: Final = 4
_OLD_FORMATS: Final = (0, 1)


class UnreadableBatch(Exception):
    """A batch can't be read; `str()` says why.

    Args:
        detail: what is wrong.
        is_as_written: True if the batch has its checksum: to fetch it again would give the same bytes.
    """

    def __init__(self, detail: str, *, is_as_written: bool) -> None:
        super().__init__(detail)
        self.is_as_written = is_as_written


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """Record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class BatchHeader(NamedTuple):
    """Header of a batch of the current format."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_BITS

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)


@dataclass(frozen=True, slots=True)
class DamagedRecords:
    """Records that can't be read and follow each other, in a batch that can be."""

    header: BatchHeader
    offset: int | None
    """Offset of the first, as far as it can be read."""
    detail: str
    """Fault of the first."""
    payload: bytes
    count: int

    @property
    def body(self) -> bytes:
        """Return a batch with these records alone."""
        return _wrap(self.header, self.payload, count=self.count)


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch that was read."""

    base_offset: int
    last_offset: int
    header: BatchHeader | None
    """None for the formats of before Kafka 0.11."""
    items: list[BatchRecord | DamagedRecords]
    plain: bytes | None
    """The batch without compression, if the client library reads it as it was read here; None otherwise."""

    @property
    def is_control(self) -> bool:
        return self.header is not None and self.header.is_control


def find_end(data: bytes, start: int) -> int | None:
    """Return where the batch at `start` ends; None if `data` ends before it."""
    if len(data) - start < _PREFIX.size:
        return None
    _, length = _PREFIX.unpack_from(data, start)
    end = start + _PREFIX.size + length
    return end if length >= 0 and end <= len(data) else None


def parse_header(data: bytes, start: int = 0) -> BatchHeader | None:
    """Return the header at `start`, whatever it contains; None if `data` is too short for one."""
    return None if len(data) - start < _HEADER.size else BatchHeader(*_HEADER.unpack_from(data, start))


def has_checksum(raw: bytes, header: BatchHeader) -> bool:
    """Return whether a batch of the current format is as it was written, apart from its offset, length and format."""
    return bool(calc_crc32c(memoryview(raw)[_CHECKED_FROM:]) == header.crc)


def read_batch(raw: bytes) -> Batch:
    """Read a batch.

    Raises:
        UnreadableBatch: none of its records can be read.
    """
    if len(raw) <= _PREFIX.size + 4:
        raise UnreadableBatch(f"a batch of {len(raw)} bytes is none", is_as_written=False)
    magic = raw[_PREFIX.size + 4]
    if magic in _OLD_FORMATS:
        return _read_old_batch(raw, magic)
    header = parse_header(raw)
    if magic != 2 or header is None:
        raise UnreadableBatch(f"a batch of {len(raw)} bytes in format {magic} is unknown", is_as_written=False)
    if not has_checksum(raw, header):
        raise UnreadableBatch("the checksum (CRC) of the batch is wrong", is_as_written=False)
    if header.last_offset_delta < 0:
        raise UnreadableBatch(f"the last offset of the batch is {header.last_offset_delta}", is_as_written=True)
    try:
        payload = decompress(header.codec, raw[_HEADER.size :], at_most_bytes=MAX_BATCH_BYTES)
    except DecompressionFailed as error:
        raise UnreadableBatch(str(error), is_as_written=True) from error
    items, is_usual = _read_items(header, payload)
    if header.is_control:
        _check_control(items, is_usual=is_usual)
    plain = None
    if is_usual:
        plain = raw if header.codec == 0 else _wrap(header, payload, count=header.records)
    return Batch(header.base_offset, header.last_offset, header, items, plain)


def read_all_records(raw: bytes) -> list[BatchRecord]:
    """Return the records of a batch.

    Raises:
        UnreadableBatch: not all of them can be read.
    """
    records = []
    for item in read_batch(raw).items:
        if isinstance(item, DamagedRecords):
            raise UnreadableBatch(item.detail, is_as_written=True)
        records.append(item)
    return records


def _read_items(header: BatchHeader, payload: bytes) -> tuple[list[BatchRecord | DamagedRecords], bool]:
    """Read all records up to the end, whatever their number in the header is.

    Returns:
        The records, and whether the client library would read the same.
    """
    items: list[BatchRecord | DamagedRecords] = []
    is_usual = True
    count = start = 0
    for count, (body, end) in enumerate(_split_records(payload), start=1):
        if count > MAX_BATCH_RECORDS:
            raise UnreadableBatch(f"the batch has more than {MAX_BATCH_RECORDS} records", is_as_written=True)
        try:
            record, is_usual_record = _read_record(header, payload[body:end])
        except (IndexError, ValueError) as error:
            detail = str(error) if isinstance(error, _TooLarge) else "the lengths within a record do not fit"
            offset = _find_offset(header, payload[body:end])
            _add_damaged(items, DamagedRecords(header, offset, detail, payload[start:end], 1))
            is_usual = False
        else:
            items.append(record)
            is_usual = is_usual and is_usual_record
        start = end
    if rest := payload[start:]:
        detail = f"the lengths of the records do not fit: {len(rest)} bytes are no record"
        _add_damaged(items, DamagedRecords(header, None, detail, rest, 1))
    elif count < header.records:
        detail = f"the batch names {header.records} records and has {count}"
        _add_damaged(items, DamagedRecords(header, None, detail, b"", header.records - count))
    return items, is_usual and not rest and count == header.records


def _split_records(payload: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each record begins, after its length, and where it ends, up to a length that does not fit."""
    start = 0
    while start < len(payload):
        try:
            length, body = _read_varint(payload, start)
        except (IndexError, ValueError):
            return
        start = body + length
        if not body < start <= len(payload):
            return
        yield body, start


def _add_damaged(items: list[BatchRecord | DamagedRecords], damaged: DamagedRecords) -> None:
    """Add damaged records, to those before them if these are damaged as well: a letter for each could be many."""
    before = items[-1] if items else None
    if isinstance(before, DamagedRecords):
        items[-1] = replace(before, payload=before.payload + damaged.payload, count=before.count + damaged.count)
    else:
        items.append(damaged)


class _TooLarge(ValueError):
    pass


def _read_record(header: BatchHeader, data: bytes) -> tuple[BatchRecord, bool]:
    """Read one record; also return whether the client library would read the same.

    Raises:
        IndexError, ValueError: a length leads beyond the record, or the record is not at its end after all its parts.
    """
    # The client library reads the attributes, which have no use yet, as if they could be longer than one byte.
    is_usual = data[0] < 0x80
    timestamp_delta, at = _read_varint(data, 1)
    offset_delta, at = _read_varint(data, at)
    key, at = _read_bytes(data, at)
    value, at = _read_bytes(data, at)
    count, at = _read_varint(data, at)
    if count < 0:
        raise ValueError("number of headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise ValueError("a header without a name")
        header_value, at = _read_bytes(data, at)
        try:
            headers.append((name.decode(), header_value))
        except UnicodeDecodeError:
            headers.append((name.decode(errors="backslashreplace"), header_value))
            is_usual = False
    if at != len(data):
        raise ValueError("bytes after the headers")
    size = len(key or b"") + sum(len(name) + len(text or b"") + _BYTES_OF_A_STORED_HEADER for name, text in headers)
    if size > MAX_KEY_AND_HEADERS_BYTES:
        raise _TooLarge(f"key and headers have {size} bytes, more than the {MAX_KEY_AND_HEADERS_BYTES} that are kept")
    timestamp = header.max_timestamp_ms
    if not header.attributes & _LOG_APPEND_TIME:
        timestamp = header.first_timestamp_ms + timestamp_delta
    # A time outside of 64 bits is none.
    timestamp = timestamp if -(2**63) <= timestamp < 2**63 else -1
    return BatchRecord(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), is_usual


def _find_offset(header: BatchHeader, data: bytes) -> int | None:
    try:
        _, at = _read_varint(data, 1)
        return header.base_offset + _read_varint(data, at)[0]
    except (IndexError, ValueError):
        return None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
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
    length, at = _read_varint(data, at)
    if length == -1:
        return None, at
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes")
    return data[at:end], end


def _check_control(items: list[BatchRecord | DamagedRecords], *, is_usual: bool) -> None:
    """Refuse marks of transactions (control records) that the client library does not read."""
    for item in items:
        if not is_usual or isinstance(item, DamagedRecords) or len(item.key or b"") < _CONTROL_KEY_BYTES:
            raise UnreadableBatch("the mark of a transaction is damaged", is_as_written=True)


def _wrap(header: BatchHeader, payload: bytes, *, count: int) -> bytes:
    """Build a batch without compression that is otherwise as its header says."""
    fields = header._replace(
        length=_HEADER.size - _PREFIX.size + len(payload), attributes=header.attributes & ~_CODEC_BITS, records=count
    )
    unchecked = _HEADER.pack(*fields) + payload
    return _HEADER.pack(*fields._replace(crc=calc_crc32c(unchecked[_CHECKED_FROM:]))) + payload


def _read_old_batch(raw: bytes, magic: int) -> Batch:
    try:
        records = read_old_records(raw, magic, at_most_bytes=MAX_BATCH_BYTES)
    except OldBatchUnreadable as error:
        raise UnreadableBatch(f"a batch in format {magic}: {error}", is_as_written=False) from error
    items: list[BatchRecord | DamagedRecords] = [
        BatchRecord(each.offset, -1 if each.timestamp is None else each.timestamp, each.key, each.value, ())
        for each in records
    ]
    # The offset of a compressed batch is that of its last record.
    last_offset, _ = _PREFIX.unpack_from(raw)
    return Batch(min((each.offset for each in records), default=last_offset), last_offset, None, items, None)
