"""Reads batches of records in the format of Kafka, and trusts nothing in them.

The client library reads beyond the end of a batch whose lengths are wrong. It then returns other memory as a record, or
the process ends with a segmentation fault. So it gets only batches that were read here before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from aiokafka.record.util import calc_crc32c

from kb_shared.kafka_connection.batch_header import (
    CHECKED_FROM,
    CODEC_BITS,
    FORMAT,
    HEADER,
    OLD_FORMATS,
    PREFIX,
    BatchHeader,
    has_checksum,
    parse_header,
)
from kb_shared.kafka_connection.batch_records import BatchRecord, TooLarge, find_offset, read_record, read_varint
from kb_shared.kafka_connection.codecs import DecompressionFailed, decompress
from kb_shared.kafka_connection.old_batches import OldBatchUnreadable, read_old_records

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Size of a decompressed batch. Kafka limits the compressed size, which says nothing about it."""
MAX_BATCH_RECORDS: Final = 100_000
MAX_BATCH_HEADERS: Final = 500_000
"""Headers of all records of a batch: many small ones take more memory and time than their bytes tell."""

_CONTROL_KEY_BYTES: Final = 4


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
class DamagedRecords:
    """Records that can't be read and follow each other, in a batch that can be."""

    header: BatchHeader
    offset: int | None
    """Offset of the first, as far as it can be read."""
    detail: str
    """Fault of the first."""
    payload: bytes
    """Records of the whole batch, of which these are the bytes from `start` to `end`."""
    start: int
    end: int
    count: int

    @property
    def body(self) -> bytes:
        """Return a batch with these records alone."""
        return _wrap(self.header, self.payload[self.start : self.end], count=self.count)


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


def read_batch(raw: bytes) -> Batch:
    """Read a batch.

    Raises:
        UnreadableBatch: none of its records can be read.
    """
    if len(raw) <= PREFIX.size + 4:
        raise UnreadableBatch(f"a batch of {len(raw)} bytes is none", is_as_written=False)
    magic = raw[PREFIX.size + 4]
    if magic in OLD_FORMATS:
        return _read_old_batch(raw, magic)
    header = parse_header(raw)
    if magic != FORMAT or header is None:
        raise UnreadableBatch(f"a batch of {len(raw)} bytes in format {magic} is unknown", is_as_written=False)
    if not has_checksum(raw, header):
        raise UnreadableBatch("the checksum (CRC) of the batch is wrong", is_as_written=False)
    if header.last_offset_delta < 0:
        raise UnreadableBatch(f"the last offset of the batch is {header.last_offset_delta}", is_as_written=True)
    try:
        payload = decompress(header.codec, raw[HEADER.size :], at_most_bytes=MAX_BATCH_BYTES)
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
    count = headers = start = 0
    for count, (body, end) in enumerate(_split_records(payload), start=1):
        if count > MAX_BATCH_RECORDS:
            raise UnreadableBatch(f"the batch has more than {MAX_BATCH_RECORDS} records", is_as_written=True)
        try:
            record, is_usual_record = read_record(header, payload[body:end])
        except (IndexError, ValueError) as error:
            detail = str(error) if isinstance(error, TooLarge) else "the lengths within a record do not fit"
            offset = find_offset(header, payload[body:end])
            _add_damaged(items, DamagedRecords(header, offset, detail, payload, start, end, 1))
            is_usual = False
        else:
            items.append(record)
            is_usual = is_usual and is_usual_record
            headers += len(record.headers)
            if headers > MAX_BATCH_HEADERS:
                raise UnreadableBatch(f"the batch has more than {MAX_BATCH_HEADERS} headers", is_as_written=True)
        start = end
    rest = len(payload) - start
    if rest:
        detail = f"the lengths of the records do not fit: {rest} bytes are no record"
        _add_damaged(items, DamagedRecords(header, None, detail, payload, start, len(payload), 1))
    elif count < header.records:
        detail = f"the batch names {header.records} records and has {count}"
        _add_damaged(items, DamagedRecords(header, None, detail, payload, start, start, header.records - count))
    return items, is_usual and not rest and count == header.records


def _split_records(payload: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each record begins, after its length, and where it ends, up to a length that does not fit."""
    start = 0
    while start < len(payload):
        try:
            length, body = read_varint(payload, start)
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
        items[-1] = replace(before, end=damaged.end, count=before.count + damaged.count)
    else:
        items.append(damaged)


def _check_control(items: list[BatchRecord | DamagedRecords], *, is_usual: bool) -> None:
    """Refuse marks of transactions (control records) that the client library does not read."""
    for item in items:
        if not is_usual or isinstance(item, DamagedRecords) or len(item.key or b"") < _CONTROL_KEY_BYTES:
            raise UnreadableBatch("the mark of a transaction is damaged", is_as_written=True)


def _wrap(header: BatchHeader, payload: bytes, *, count: int) -> bytes:
    """Build a batch without compression that is otherwise as its header says."""
    fields = header._replace(
        length=HEADER.size - PREFIX.size + len(payload), attributes=header.attributes & ~CODEC_BITS, records=count
    )
    unchecked = HEADER.pack(*fields) + payload
    return HEADER.pack(*fields._replace(crc=calc_crc32c(unchecked[CHECKED_FROM:]))) + payload


def _read_old_batch(raw: bytes, magic: int) -> Batch:
    try:
        records = read_old_records(raw, magic, at_most_bytes=MAX_BATCH_BYTES, at_most_records=MAX_BATCH_RECORDS)
    except OldBatchUnreadable as error:
        raise UnreadableBatch(f"a batch in format {magic}: {error}", is_as_written=False) from error
    items: list[BatchRecord | DamagedRecords] = [
        BatchRecord(each.offset, -1 if each.timestamp is None else each.timestamp, each.key, each.value, ())
        for each in records
    ]
    # The offset of a compressed batch is that of its last record.
    last_offset, _ = PREFIX.unpack_from(raw)
    return Batch(min((each.offset for each in records), default=last_offset), last_offset, None, items, None)
