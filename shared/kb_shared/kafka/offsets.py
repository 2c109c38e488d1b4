"""Decides which offsets may be committed: never one with an unfinished record before it. Pure."""

from collections import deque
from collections.abc import Mapping

from kb_shared.kafka.record import TopicPartition


class OffsetTracker:
    """Tracks the unfinished records of one partition.

    Offsets rise but may have gaps (compaction, transaction markers).
    """

    def __init__(self, first_offset: int) -> None:
        self._begun: deque[tuple[int, float]] = deque()
        self._finished: set[int] = set()
        self.next_offset = first_offset
        """Offset after the last record that has come or is known not to exist."""
        self.committed: int | None = first_offset
        """Offset that the group would resume from; None if it has none."""

    def begin(self, offset: int, *, at: float = 0.0) -> None:
        """Record that the record at `offset` has come.

        Args:
            offset: of the record.
            at: time of arrival on a clock of the caller.

        Raises:
            ValueError: it was begun before, or a later one was.
        """
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} comes after {self.next_offset - 1}")
        self._begun.append((offset, at))
        self.next_offset = offset + 1

    def advance(self, offset: int) -> None:
        """Record that no further record before `offset` will come."""
        self.next_offset = max(self.next_offset, offset)

    def finish(self, offset: int) -> None:
        """Record that the record at `offset` is finished. Idempotent."""
        if self._begun and offset >= self._begun[0][0]:
            self._finished.add(offset)

    @property
    def safe(self) -> int:
        """Return the offset to commit: of the first unfinished record, otherwise `next_offset`."""
        first = self._first_unfinished()
        return self.next_offset if first is None else first[0]

    @property
    def oldest_unfinished_at(self) -> float | None:
        """Return when the first unfinished record came; None if all are finished."""
        first = self._first_unfinished()
        return None if first is None else first[1]

    @property
    def replay_window(self) -> int:
        """Return the maximum number of offsets that a crash now would repeat."""
        return self.next_offset - self.safe

    def _first_unfinished(self) -> tuple[int, float] | None:
        while self._begun and self._begun[0][0] in self._finished:
            self._finished.discard(self._begun.popleft()[0])
        return self._begun[0] if self._begun else None


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

    def begin(self, partition: TopicPartition, offset: int, *, at: float = 0.0) -> OffsetTracker:
        """Record that a record has come; return the tracker at which to finish it.

        An offset below an earlier one means that the partition's log was truncated or created again. Its offsets then
        name other records, so a new tracker replaces the old one. Old records finish at the old one without effect.
        """
        tracker = self._trackers.get(partition)
        if tracker is None or offset < tracker.next_offset:
            tracker = self._trackers[partition] = OffsetTracker(offset)
        tracker.begin(offset, at=at)
        return tracker

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

    def oldest_unfinished_at(self) -> dict[TopicPartition, float]:
        """Return when the first unfinished record of each partition came, without partitions that have none."""
        since = {partition: tracker.oldest_unfinished_at for partition, tracker in self._trackers.items()}
        return {partition: at for partition, at in since.items() if at is not None}
