"""Batches of records as bytes, with everything that a producer or a disk can do to them."""

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c, encode_varint

HEADER_BYTES: Final = 61
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, DELTA_AT, COUNT_AT = 8, 16, 17, 21, 23, 57
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class Rec:
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 1_767_225_600_000


def build_batch(
    records: Sequence[Rec],
    *,
    codec: str = "none",
    base_offset: int = 0,
    deltas: Sequence[int] | None = None,
    producer_id: int = -1,
    attributes: int = 0,
) -> bytearray:
    """Build a batch. The codec is used if it makes the batch smaller, as producers do."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        batch_size=2**30,
    )
    for delta, record in zip(deltas or range(len(records)), records, strict=True):
        builder.append(
            delta, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers)
        )
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, base_offset)
    (given,) = struct.unpack_from(">h", batch, ATTRIBUTES_AT)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, given | attributes)
    return with_checksum(batch)


def with_checksum(batch: bytearray) -> bytearray:
    """Set the checksum to that of the contents, as a producer does who writes nonsense."""
    struct.pack_into(">I", batch, CRC_AT, calc_crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return batch


def with_length(batch: bytearray) -> bytearray:
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - LENGTH_AT - 4)
    return batch


def varint(number: int) -> bytes:
    written = bytearray()
    encode_varint(number, written.append)
    return bytes(written)


def set_int(batch: bytearray, at: int, number: int) -> bytearray:
    struct.pack_into(">i", batch, at, number)
    return with_checksum(batch)


def set_codec(batch: bytearray, codec: int) -> bytearray:
    batch[ATTRIBUTES_AT + 1] = batch[ATTRIBUTES_AT + 1] & ~7 | codec
    return with_checksum(batch)


def flip(batch: bytearray, at: int) -> bytearray:
    """Change one bit, and not the checksum, as a disk does."""
    batch[at] ^= 1
    return batch


def overwrite(batch: bytearray, choose: random.Random) -> bytearray:
    """Overwrite some bytes of the records, and set the checksum."""
    for _ in range(choose.randint(1, 8)):
        batch[choose.randrange(HEADER_BYTES, len(batch))] = choose.choice(
            (0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256))
        )
    return with_checksum(batch)


def truncate(batch: bytearray, choose: random.Random) -> bytearray:
    """Cut the records off, and set length and checksum."""
    del batch[choose.randrange(HEADER_BYTES, len(batch)) :]
    return with_checksum(with_length(batch))


def _set_magic(batch: bytearray, choose: random.Random) -> bytearray:
    batch[MAGIC_AT] = choose.choice((0, 1, 3, 127, 255))
    return batch


DAMAGES: Final[Mapping[str, Callable[[bytearray, random.Random], bytearray]]] = {
    "wrong checksum": lambda batch, _: flip(batch, CRC_AT),
    "flipped bit": lambda batch, choose: flip(batch, choose.randrange(HEADER_BYTES, len(batch))),
    "unknown codec": lambda batch, choose: set_codec(batch, choose.randint(5, 7)),
    "other codec": lambda batch, choose: set_codec(batch, choose.randint(0, 4)),
    "unknown format": _set_magic,
    "overwritten records": overwrite,
    "truncated records": truncate,
    "greater number of records": lambda batch, choose: set_int(batch, COUNT_AT, choose.choice((9, 2**31 - 1))),
    "smaller number of records": lambda batch, choose: set_int(batch, COUNT_AT, choose.randint(1, 3)),
    "no number of records": lambda batch, choose: set_int(batch, COUNT_AT, choose.choice((0, -1, -(2**31)))),
    "no offset": lambda batch, _: set_int(batch, DELTA_AT, 0),
    "negative offset": lambda batch, _: set_int(batch, DELTA_AT, -5),
}
"""Damages of a batch of several records."""
# The local broker believes in negative offsets, and returns nothing from an offset on whose batch names no record.
ON_ANY_BROKER: Final = sorted(DAMAGES.keys() - {"negative offset", "no number of records"})
"""Damages behind which a broker goes on."""
