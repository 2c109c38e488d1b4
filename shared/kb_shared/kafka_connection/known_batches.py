"""Keeps batches that were read, because they may be fetched again.

To pause a partition discards what was fetched and not handed over. After the pause it is fetched again from the middle
of a batch, and reading a large batch takes long enough to delay everything else in the process.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Final, NamedTuple

from kb_shared.kafka_connection.batch_header import HEADER

_OVERHEAD_BYTES: Final = 500
"""Memory that a batch takes in addition to its bytes."""


class KnownBatch(NamedTuple):
    """Batch that the client library reads as it was read here."""

    base_offset: int
    last_offset: int
    plain: bytes


class KnownBatches:
    """Keeps batches of each partition by their header, which contains offset, length and checksum."""

    def __init__(self, *, at_most_bytes: int) -> None:
        self._at_most_bytes = at_most_bytes
        self._bytes = 0
        self._batches: dict[Hashable, dict[bytes, KnownBatch]] = defaultdict(dict)

    def find(self, place: Hashable, raw: bytes) -> KnownBatch | None:
        """Return what was read of the same batch before; None if it is not kept."""
        return self._batches[place].get(raw[: HEADER.size])

    def keep(self, place: Hashable, raw: bytes, batch: KnownBatch) -> None:
        """Keep a batch. If that are too many bytes, all others are forgotten first."""
        if self.find(place, raw) is not None:
            return
        size = _size_of(batch)
        if self._bytes + size > self._at_most_bytes:
            self._batches.clear()
            self._bytes = 0
        if size <= self._at_most_bytes:
            self._batches[place][raw[: HEADER.size]] = batch
            self._bytes += size

    def forget_before(self, place: Hashable, offset: int) -> None:
        """Forget the batches that end before `offset`."""
        batches = self._batches[place]
        for header in [header for header, batch in batches.items() if batch.last_offset < offset]:
            self._bytes -= _size_of(batches.pop(header))


def _size_of(batch: KnownBatch) -> int:
    return len(batch.plain) + _OVERHEAD_BYTES
