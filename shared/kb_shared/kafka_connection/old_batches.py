"""Reads batches in the formats of before Kafka 0.11, which an old log may still have."""

import struct
from typing import Any, Final

from aiokafka.record.legacy_records import _LegacyRecordBatchPy

from kb_shared.kafka_connection.codecs import decompress

_ATTRIBUTES_AT: Final = 17
_CODEC_BITS: Final = 0x07
_HEADER_BYTES: Final = (18, 26)
"""By format."""


class OldBatchUnreadable(Exception):
    """A batch can't be read; `str()` says why."""


def read_old_records(raw: bytes, magic: int, *, at_most_bytes: int) -> list[Any]:
    """Read the records of a batch of format 0 or 1.

    Raises:
        OldBatchUnreadable: they can't be read.
    """
    try:
        # The implementation in Python: the other one reads beyond the end of a damaged batch.
        batch = _LegacyRecordBatchPy(memoryview(raw), magic)
        is_intact = batch.validate_crc()
        if is_intact:
            _check_size(raw, magic, at_most_bytes)
            return list(batch)
    except Exception as error:
        raise OldBatchUnreadable(str(error) or type(error).__name__) from error
    raise OldBatchUnreadable("the checksum (CRC) of the batch is wrong")


def _check_size(raw: bytes, magic: int, at_most_bytes: int) -> None:
    """Decompress once more than needed: the client library does it without a limit."""
    codec = raw[_ATTRIBUTES_AT] & _CODEC_BITS
    if codec == 0:
        return
    at = _HEADER_BYTES[magic]
    (key_bytes,) = struct.unpack_from(">i", raw, at)
    at += 4 + max(0, key_bytes)
    (value_bytes,) = struct.unpack_from(">i", raw, at)
    decompress(codec, raw[at + 4 : at + 4 + max(0, value_bytes)], at_most_bytes=at_most_bytes)
