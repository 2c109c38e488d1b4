"""Decompresses batches of records with the codecs of Kafka, up to a limit of their size."""

import gzip
import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import codec as client_codecs

CODECS: Final[Mapping[int, str]] = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
"""Names of the codecs by their number in a batch."""

_FIRST_BUFFER_BYTES: Final = 1024 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
"""Magic, version and oldest reader of the blocks in which Java frames snappy."""

# The text "codec", as each of them writes it.
_SAMPLES: Final[Mapping[int, bytes]] = {
    1: bytes.fromhex("1f8b08000000000002034bce4f494d060029d11af805000000"),
    2: bytes.fromhex("0510636f646563"),
    3: bytes.fromhex("04224d187040ad05000080636f6465635cb49b6100000000"),
    4: bytes.fromhex("28b52ffd2005290000636f646563"),
}


class DecompressionFailed(Exception):
    """The data can't be decompressed; `str()` says why."""


def decompress(codec: int, data: bytes, *, at_most_bytes: int) -> bytes:
    """Decompress the records of a batch.

    Raises:
        DecompressionFailed: the codec is unknown or not installed, the data is damaged, or it is larger than allowed.
    """
    name = CODECS.get(codec)
    if name is None:
        raise DecompressionFailed(f"codec {codec} is unknown; known are {', '.join(CODECS.values())}")
    if codec == 0:
        return data
    if name != "gzip" and client_codecs.cramjam is None:
        raise DecompressionFailed(f"codec {name} can't be read: the package cramjam is not installed")
    try:
        return _DECOMPRESS[name](data, at_most_bytes)
    except DecompressionFailed:
        raise
    except Exception as error:
        raise DecompressionFailed(f"{name} data can't be decompressed: {type(error).__name__}: {error}") from error


def find_unreadable_codecs() -> list[str]:
    """Try all codecs; return the names of those that this installation can't read."""
    return [CODECS[codec] for codec, sample in _SAMPLES.items() if not _is_readable(codec, sample)]


def _is_readable(codec: int, sample: bytes) -> bool:
    try:
        return decompress(codec, sample, at_most_bytes=len(b"codec")) == b"codec"
    except DecompressionFailed:
        return False


def _decompress_gzip(data: bytes, at_most_bytes: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        text = stream.read(at_most_bytes + 1)
    if len(text) > at_most_bytes:
        raise _too_large("gzip", at_most_bytes)
    return text


def _decompress_snappy(data: bytes, at_most_bytes: int) -> bytes:
    blocks = _split_xerial_blocks(data) if data.startswith(_XERIAL_MAGIC) else [data]
    snappy: Any = client_codecs.cramjam.snappy
    if sum(snappy.decompress_raw_len(block) for block in blocks) > at_most_bytes:
        raise _too_large("snappy", at_most_bytes)
    return b"".join(bytes(snappy.decompress_raw(block)) for block in blocks)


def _split_xerial_blocks(data: bytes) -> list[bytes]:
    blocks = []
    start = _XERIAL_HEADER_BYTES
    while start < len(data):
        (size,) = struct.unpack_from(">i", data, start)
        start += 4
        if not 0 < size <= len(data) - start:
            raise DecompressionFailed(f"snappy data can't be decompressed: a block of {size} bytes at {start}")
        blocks.append(data[start : start + size])
        start += size
    return blocks


def _decompress_lz4(data: bytes, at_most_bytes: int) -> bytes:
    return _decompress_frames(data, at_most_bytes, codec=client_codecs.cramjam.lz4)


def _decompress_zstd(data: bytes, at_most_bytes: int) -> bytes:
    return _decompress_frames(data, at_most_bytes, codec=client_codecs.cramjam.zstd)


def _decompress_frames(data: bytes, at_most_bytes: int, *, codec: Any) -> bytes:
    """Decompress into a small buffer, and if that fails into the largest: few frames tell their size."""
    for size in (min(at_most_bytes, max(_FIRST_BUFFER_BYTES, 16 * len(data))), at_most_bytes):
        buffer = bytearray(size)
        try:
            written = codec.decompress_into(data, buffer)
        except client_codecs.cramjam.DecompressionError as error:
            if size == at_most_bytes:
                if "write whole buffer" in str(error):
                    raise _too_large(codec.__name__, at_most_bytes) from error
                raise
        else:
            return bytes(memoryview(buffer)[:written])
    raise AssertionError


def _too_large(name: str, at_most_bytes: int) -> DecompressionFailed:
    return DecompressionFailed(f"{name} data is larger than {at_most_bytes} bytes when it is decompressed")


_DECOMPRESS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _decompress_gzip,
    "snappy": _decompress_snappy,
    "lz4": _decompress_lz4,
    "zstd": _decompress_zstd,
}
