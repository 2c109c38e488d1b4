"""Reads the parts of Kafka requests and responses that the proxy needs. All other bytes pass as they come."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

SIZE_BYTES: Final = 4
HEADER: Final = struct.Struct(">ihhi")
"""Size of the rest, API key, API version and correlation id."""
LEAST_SIZE: Final = HEADER.size - SIZE_BYTES
"""Size of the rest of the shortest request."""
RESPONSE_HEADER: Final = struct.Struct(">ii")
"""Size of the rest, and correlation id."""
FETCH: Final = 1
_API_VERSIONS: Final = 18
_NEWEST_API_VERSIONS: Final = 4
"""Newest version of the request for the broker's versions that Tansu knows."""
_UNSUPPORTED_VERSION: Final = 35
_CORRELATION_ID: Final = slice(8, 12)
_VERSIONS: Final = range(4, 12)
"""Versions of the fetch request that are understood; later ones have another layout."""
_WITH_LOG_START: Final = 5
_WITH_SESSION: Final = 7
_WITH_EPOCH: Final = 9
_STRING_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_WITHOUT_EFFECT: Final = frozenset(
    {
        FETCH,
        2,  # ListOffsets
        3,  # Metadata
        8,  # OffsetCommit
        9,  # OffsetFetch
        10,  # FindCoordinator
        11,  # JoinGroup
        12,  # Heartbeat
        13,  # LeaveGroup
        14,  # SyncGroup
        15,  # DescribeGroups
        16,  # ListGroups
        _API_VERSIONS,
        32,  # DescribeConfigs
    }
)


def may_add_records(api_key: int) -> bool:
    """Return whether fetches may find something after a request of this kind that they did not find before."""
    return api_key not in _WITHOUT_EFFECT


def needs_whole_frame(api_key: int, version: int) -> bool:
    """Return whether a request does not pass byte for byte: fetches, which may wait, and what Tansu would misread."""
    # nosemgrep: secret-compared-with-equals  # the kind of a request of Kafka
    return api_key == FETCH or _is_misread(api_key, version)


def refuse_version(frame: bytes) -> bytes | None:
    """Return what a broker answers to a request for its versions that it does not know; None for another request.

    The client then asks again in a version of the answer. Tansu takes such a request for one of an earlier version, and
    closes the connection. Java's client sends it since 4.4, franz-go since 1.22.
    """
    _, api_key, version, correlation_id = HEADER.unpack_from(frame)
    if not _is_misread(api_key, version):
        return None
    answer = struct.pack(">ihihhh", correlation_id, _UNSUPPORTED_VERSION, 1, api_key, 0, _NEWEST_API_VERSIONS)
    return struct.pack(">i", len(answer)) + answer


def _is_misread(api_key: int, version: int) -> bool:
    # nosemgrep: secret-compared-with-equals  # the kind of a request of Kafka
    return api_key == _API_VERSIONS and version > _NEWEST_API_VERSIONS


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch request."""

    frame: bytes
    wait_position: int
    max_wait_s: float
    content: tuple[bytes, frozenset[bytes]]
    """Positions that are fetched: equal in two requests of the same ones, in whatever order a client names them."""

    @classmethod
    def parse(cls, frame: bytes) -> Self | None:
        """Read the fetch request of a whole frame; None if its version or its content is not understood."""
        _, _, version, _ = HEADER.unpack_from(frame)
        if version not in _VERSIONS:
            return None
        reader = _Reader(frame, HEADER.size)
        try:
            reader.read_string()
            wait = reader.position + 4
            # Id of the replica, times and sizes, isolation level, and session.
            reader.read(17 + (8 if version >= _WITH_SESSION else 0))
            before = frame[SIZE_BYTES : _CORRELATION_ID.start] + frame[_CORRELATION_ID.stop : reader.position]
            partitions = frozenset(reader.read_partitions(_partition_bytes(version)))
        except _CutOff:
            return None
        [wait_ms] = _COUNT.unpack_from(frame, wait)
        return cls(frame, wait, max_wait_s=max(0, wait_ms) / 1000, content=(before, partitions))

    def waiting_for(self, seconds: float) -> bytes:
        """Return the request with another waiting time."""
        before, after = self.frame[: self.wait_position], self.frame[self.wait_position + _COUNT.size :]
        return before + _COUNT.pack(round(1000 * seconds)) + after


def _partition_bytes(version: int) -> int:
    """Return the size of a partition: number, offset and limit; then also the start of the log, and the epoch."""
    if version >= _WITH_EPOCH:
        return 28
    return 24 if version >= _WITH_LOG_START else 16


class _CutOff(Exception):
    """End of a frame before the end of what it says it contains."""


@dataclass(slots=True)
class _Reader:
    """Reads a frame; raises _CutOff where it ends too early."""

    frame: bytes
    position: int

    def read(self, size: int) -> bytes:
        begin, self.position = self.position, self.position + size
        if self.position > len(self.frame):
            raise _CutOff
        return self.frame[begin : self.position]

    def read_string(self) -> bytes:
        [size] = _STRING_LENGTH.unpack(self.read(_STRING_LENGTH.size))
        return self.read(max(0, size))

    def read_partitions(self, size: int) -> Iterator[bytes]:
        """Return each partition with the name of its topic."""
        for _ in range(self._read_count()):
            topic = self.read_string()
            for _ in range(self._read_count()):
                yield topic + self.read(size)

    def _read_count(self) -> int:
        [count] = _COUNT.unpack(self.read(_COUNT.size))
        return int(count)
