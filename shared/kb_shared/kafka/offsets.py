"""Decides which offsets may be committed: never one with an unfinished record before it. Pure."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kb_shared.kafka.record import TopicPartition


class BegunRecord(NamedTuple):
    """A record that has come."""

    offset: int
    at: float
    """Time of arrival on a clock of the caller."""
    written_at: float
    """Unix time at which it was written to the log."""


class OffsetTracker:
    """Tracks the unfinished records of one partition.

    Offsets rise but may have gaps (compaction, transaction markers).
    """

    def __init__(self, first_offset: int) -> None:
        self._begun: deque[BegunRecord] = deque()
        self._finished: set[int] = set()
        self.next_offset = first_offset
        """Offset after the last record that has come or is known not to exist."""
        self.committed: int | None = first_offset
        """Offset that the group would resume from; None if it has none."""
        self._covered = range(0)
        """Offsets of the last record that has come for more than its own."""

    def begin(self, offset: int, *, at: float = 0.0, written_at: float = 0.0) -> None:
        """Record that the record at `offset` has come.

        Args:
            offset: of the record.
            at: time of arrival on a clock of the caller.
            written_at: Unix time at which it was written to the log.

        Raises:
            ValueError: it was begun before, or a later one was.
        """
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} comes after {self.next_offset - 1}")
        self._begun.append(BegunRecord(offset, at, written_at))
        self.next_offset = offset + 1

    def advance(self, offset: int) -> None:
        """Record that no further record before `offset` will come."""
        self.next_offset = max(self.next_offset, offset)

    def cover(self, offset: int, last_offset: int) -> None:
        """Record that the record at `offset` has come for all offsets up to `last_offset`."""
        self._covered = range(offset, last_offset + 1)
        self.advance(last_offset + 1)

    def has_covered(self, offset: int, last_offset: int) -> bool:
        """Return whether the last record has come for these offsets as well."""
        return self.next_offset == self._covered.stop and offset in self._covered and last_offset in self._covered

    def finish(self, offset: int) -> None:
        """Record that the record at `offset` is finished. Idempotent."""
        if self._begun and offset >= self._begun[0].offset:
            self._finished.add(offset)

    @property
    def safe(self) -> int:
        """Return the offset to commit: of the first unfinished record, otherwise `next_offset`."""
        first = self.first_unfinished
        return self.next_offset if first is None else first.offset

    @property
    def first_unfinished(self) -> BegunRecord | None:
        """Return the first record that has come and is not finished; None if all are finished."""
        while self._begun and self._begun[0].offset in self._finished:
            self._finished.discard(self._begun.popleft().offset)
        return self._begun[0] if self._begun else None

    @property
    def replay_window(self) -> int:
        """Return the maximum number of offsets that a crash now would repeat."""
        return self.next_offset - self.safe


class OffsetLedger:
    """Holds the trackers of all partitions of one assignment."""

    def __init__(self) -> None:
        self._trackers: dict[TopicPartition, OffsetTracker] = {}

    def start(self, partition: TopicPartition, position: int, *, committed: int | None) -> None:
        """Start a new tracker at `position`.

        Args:
            partition: of this assignment.
            position: the first offset to read.
            committed: offset of the group. If `position` differs, `position` is committed, so that the next owner
                notices records that are deleted from now on.
        """
        tracker = self._trackers[partition] = OffsetTracker(position)
        tracker.committed = committed

    def trackers(self) -> dict[TopicPartition, OffsetTracker]:
        """Return the current trackers. A tracker that `start` has replaced has no effect any more."""
        return dict(self._trackers)

    def begin(
        self, partition: TopicPartition, offset: int, *, at: float = 0.0, written_at: float = 0.0
    ) -> OffsetTracker:
        """Record that a record has come; return the tracker at which to finish it.

        An offset below an earlier one means that the partition's log was truncated or created again. Its offsets then
        name other records, so a new tracker replaces the old one. Old records finish at the old one without effect.
        """
        tracker = self._trackers.get(partition)
        if tracker is None or offset < tracker.next_offset:
            tracker = self._trackers[partition] = OffsetTracker(offset)
        tracker.begin(offset, at=at, written_at=written_at)
        return tracker

    def has_covered(self, partition: TopicPartition, offset: int, last_offset: int) -> bool:
        """Return whether the last record of `partition` has come for these offsets as well."""
        tracker = self._trackers.get(partition)
        return tracker is not None and tracker.has_covered(offset, last_offset)

    def committable(self) -> dict[TopicPartition, int]:
        """Return the offsets that are safe and not yet committed."""
        safe = {partition: tracker.safe for partition, tracker in self._trackers.items()}
        return {
            partition: offset for partition, offset in safe.items() if offset != self._trackers[partition].committed
        }

    def mark_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._trackers[partition].committed = offset

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of `partition`; None if it is unknown."""
        tracker = self._trackers.get(partition)
        return None if tracker is None else tracker.committed

    def replay_windows(self) -> dict[TopicPartition, int]:
        return {partition: tracker.replay_window for partition, tracker in self._trackers.items()}

    def first_unfinished(self) -> dict[TopicPartition, BegunRecord]:
        """Return the first unfinished record of each partition, without partitions that have none."""
        first = {partition: tracker.first_unfinished for partition, tracker in self._trackers.items()}
        return {partition: record for partition, record in first.items() if record is not None}
