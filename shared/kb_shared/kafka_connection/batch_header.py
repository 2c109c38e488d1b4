"""Reads the header of a batch of records in the format of Kafka since 0.11."""

import struct
from typing import Final, NamedTuple

from aiokafka.record.util import calc_crc32c

FORMAT: Final = 2
"""Format of batches since Kafka 0.11 (magic)."""
OLD_FORMATS: Final = (0, 1)
PREFIX: Final = struct.Struct(">qi")
"""Base offset, and the length of what follows."""
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CODEC_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
CHECKED_FROM: Final = 21
"""Position from which the checksum covers a batch: neither its offset nor its length nor its format."""
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


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
        return self.attributes & CODEC_BITS

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)


def find_end(data: bytes, start: int) -> int | None:
    """Return where the batch at `start` ends; None if `data` ends before it."""
    if len(data) - start < PREFIX.size:
        return None
    _, length = PREFIX.unpack_from(data, start)
    end = start + PREFIX.size + length
    return end if length >= 0 and end <= len(data) else None


def parse_header(data: bytes, start: int = 0) -> BatchHeader | None:
    """Return the header at `start`, whatever it contains; None if `data` is too short for one."""
    return None if len(data) - start < HEADER.size else BatchHeader(*HEADER.unpack_from(data, start))


def has_checksum(raw: bytes, header: BatchHeader) -> bool:
    """Return whether a batch of the current format is as it was written, apart from its offset, length and format."""
    return bool(calc_crc32c(memoryview(raw)[CHECKED_FROM:]) == header.crc)
