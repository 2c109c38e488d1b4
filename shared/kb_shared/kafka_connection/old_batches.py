"""Reads batches in the formats of before Kafka 0.11, which an old log may still have."""

import struct
from typing import Any, Final

from aiokafka.record.legacy_records import _LegacyRecordBatchPy

from kb_shared.kafka_connection.batch_header import CODEC_BITS, PREFIX
from kb_shared.kafka_connection.codecs import decompress

_ATTRIBUTES_AT: Final = 17
_HEADER_BYTES: Final = (18, 26)
"""By format: what comes before the length of the key."""
_LENGTH: Final = struct.Struct(">i")
_NO_BYTES: Final = -1
"""Length of a key or value that is none."""


class OldBatchUnreadable(Exception):
    """A batch can't be read; `str()` says why."""


def read_old_records(raw: bytes, magic: int, *, at_most_bytes: int, at_most_records: int) -> list[Any]:
    """Read the records of a batch of format 0 or 1.

    Raises:
        OldBatchUnreadable: they can't be read.
    """
    try:
        # The implementation in Python: the other one reads beyond the end of a damaged batch.
        batch = _LegacyRecordBatchPy(memoryview(raw), magic)
        is_intact = batch.validate_crc()
        if is_intact:
            _check_lengths(raw, magic, at_most_bytes=at_most_bytes, at_most_records=at_most_records)
            return list(batch)
    except Exception as error:
        raise OldBatchUnreadable(str(error) or type(error).__name__) from error
    raise OldBatchUnreadable("the checksum (CRC) of the batch is wrong")


def _check_lengths(raw: bytes, magic: int, *, at_most_bytes: int, at_most_records: int) -> None:
    """Check what the client library trusts, which then decompresses again, without a limit."""
    value_at, value_end = _find_value(raw, magic, start=0, end=len(raw))
    codec = raw[_ATTRIBUTES_AT] & CODEC_BITS
    if codec == 0:
        return
    messages = decompress(codec, raw[value_at:value_end], at_most_bytes=at_most_bytes)
    count = start = 0
    while start < len(messages):
        count += 1
        if count > at_most_records:
            raise OldBatchUnreadable(f"the batch has more than {at_most_records} records")
        _, length = PREFIX.unpack_from(messages, start)
        end = start + PREFIX.size + length
        _find_value(messages, magic, start=start, end=end)
        start = end


def _find_value(data: bytes, magic: int, *, start: int, end: int) -> tuple[int, int]:
    """Return where the value of the message from `start` to `end` begins and ends, which is with the message."""
    key_at = start + _HEADER_BYTES[magic]
    if key_at + 2 * _LENGTH.size <= end <= len(data):
        (key_bytes,) = _LENGTH.unpack_from(data, key_at)
        size_at = key_at + _LENGTH.size + max(0, key_bytes)
        if key_bytes >= _NO_BYTES and size_at + _LENGTH.size <= end:
            (value_bytes,) = _LENGTH.unpack_from(data, size_at)
            value_at = size_at + _LENGTH.size
            if value_bytes >= _NO_BYTES and value_at + max(0, value_bytes) == end:
                return value_at, end
    raise OldBatchUnreadable(f"the lengths of the message at {start} do not fit")
