"""Which offsets may be committed: never one that has unfinished work before it. Pure."""

from collections import deque
from collections.abc import Mapping

from kb_shared.kafka.record import TopicPartition


class OffsetTracker:
    """The records of one partition that were begun and not all finished.

    Offsets rise but may have gaps (compaction, transaction markers).
    """

    def __init__(self, first_offset: int) -> None:
        self._begun: deque[tuple[int, float]] = deque()
        self._finished: set[int] = set()
        self.next_offset = first_offset
        """One past the last record that was begun or is known not to be there."""
        self.committed: int | None = first_offset
        """Offset that the group would resume from; None if it has none."""

    def begin(self, offset: int, *, at: float = 0.0) -> None:
        """Note that the record at `offset` has come.

        Args:
            offset: of the record.
            at: when it came, on a clock of the caller.

        Raises:
            ValueError: it was begun before, or a later one was.
        """
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} comes after {self.next_offset - 1}")
        self._begun.append((offset, at))
        self.next_offset = offset + 1

    def advance(self, offset: int) -> None:
        """Note that there is no record before `offset` that has not been begun."""
        self.next_offset = max(self.next_offset, offset)

    def finish(self, offset: int) -> None:
        """Note that the record at `offset` needs nothing more. Repeating it changes nothing."""
        if self._begun and offset >= self._begun[0][0]:
            self._finished.add(offset)

    @property
    def safe(self) -> int:
        """The offset to commit: that of the first unfinished record, else one past the last."""
        first = self._first_unfinished()
        return self.next_offset if first is None else first[0]

    @property
    def oldest_unfinished_at(self) -> float | None:
        """When the first unfinished record came; None if all are finished."""
        first = self._first_unfinished()
        return None if first is None else first[1]

    @property
    def replay_window(self) -> int:
        """How many offsets a crash now would repeat at most."""
        return self.next_offset - self.safe

    def _first_unfinished(self) -> tuple[int, float] | None:
        while self._begun and self._begun[0][0] in self._finished:
            self._finished.discard(self._begun.popleft()[0])
        return self._begun[0] if self._begun else None


class OffsetLedger:
    """The trackers of all partitions of one assignment."""

    def __init__(self) -> None:
        self._trackers: dict[TopicPartition, OffsetTracker] = {}

    def start(self, partition: TopicPartition, position: int, *, committed: int | None) -> None:
        """Begin reading at `position`, whatever was read before.

        Args:
            partition: of this assignment.
            position: the first offset to read.
            committed: the group's offset. If `position` is another one, that is committed, so that what is deleted
                from here on is found missing by the next owner.
        """
        tracker = self._trackers[partition] = OffsetTracker(position)
        tracker.committed = committed

    def trackers(self) -> dict[TopicPartition, OffsetTracker]:
        """The trackers of now; `start` replaces one, which then counts no more."""
        return dict(self._trackers)

    def begin(self, partition: TopicPartition, offset: int, *, at: float = 0.0) -> OffsetTracker:
        """Note that a record has come; finish it at the tracker returned.

        An offset below one seen before means that the partition's log was cut or made again. Its offsets then name
        other records, so a new tracker takes over: old records finish at the old one, which counts no more.
        """
        tracker = self._trackers.get(partition)
        if tracker is None or offset < tracker.next_offset:
            tracker = self._trackers[partition] = OffsetTracker(offset)
        tracker.begin(offset, at=at)
        return tracker

    def committable(self) -> dict[TopicPartition, int]:
        """Offsets that are safe and not yet committed."""
        safe = {partition: tracker.safe for partition, tracker in self._trackers.items()}
        return {
            partition: offset for partition, offset in safe.items() if offset != self._trackers[partition].committed
        }

    def mark_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._trackers[partition].committed = offset

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the offset that the group would resume `partition` from; None if it is unknown."""
        tracker = self._trackers.get(partition)
        return None if tracker is None else tracker.committed

    def replay_windows(self) -> dict[TopicPartition, int]:
        return {partition: tracker.replay_window for partition, tracker in self._trackers.items()}

    def oldest_unfinished_at(self) -> dict[TopicPartition, float]:
        """When the first unfinished record of each partition came, for those that have one."""
        since = {partition: tracker.oldest_unfinished_at for partition, tracker in self._trackers.items()}
        return {partition: at for partition, at in since.items() if at is not None}
