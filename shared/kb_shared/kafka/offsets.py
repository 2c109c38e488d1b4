"""Which offsets may be committed: never one that has unfinished work before it. Pure."""

from collections import deque
from collections.abc import Mapping

from kb_shared.kafka.record import TopicPartition


class OffsetTracker:
    """The records of one partition that were begun and not all finished.

    Offsets rise but may have gaps (compaction, transaction markers).
    """

    def __init__(self, first_offset: int) -> None:
        self._begun: deque[int] = deque()
        self._finished: set[int] = set()
        self.next_offset = first_offset
        """One past the last record that was begun."""
        self.committed = first_offset
        """What the group would resume from; at first where this partition was begun."""

    def begin(self, offset: int) -> None:
        """Note that the record at `offset` has come.

        Raises:
            ValueError: it was begun before, or a later one was.
        """
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} comes after {self.next_offset - 1}")
        self._begun.append(offset)
        self.next_offset = offset + 1

    def finish(self, offset: int) -> None:
        """Note that the record at `offset` needs nothing more. Repeating it changes nothing."""
        if self._begun and offset >= self._begun[0]:
            self._finished.add(offset)

    @property
    def safe(self) -> int:
        """The offset to commit: that of the first unfinished record, else one past the last."""
        while self._begun and self._begun[0] in self._finished:
            self._finished.discard(self._begun.popleft())
        return self._begun[0] if self._begun else self.next_offset

    @property
    def replay_window(self) -> int:
        """How many offsets a crash now would repeat at most."""
        return self.next_offset - self.safe


class OffsetLedger:
    """The trackers of all partitions of one assignment."""

    def __init__(self) -> None:
        self._trackers: dict[TopicPartition, OffsetTracker] = {}

    def begin(self, partition: TopicPartition, offset: int) -> OffsetTracker:
        """Note that a record has come; finish it at the tracker returned.

        An offset below one seen before means that the partition's log was cut or made anew. Its offsets then name
        other records, so a new tracker takes over: old records finish at the old one, which counts no more.
        """
        tracker = self._trackers.get(partition)
        if tracker is None or offset < tracker.next_offset:
            tracker = self._trackers[partition] = OffsetTracker(offset)
        tracker.begin(offset)
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
        """What the group would resume `partition` from; None while no record of it has come."""
        tracker = self._trackers.get(partition)
        return None if tracker is None else tracker.committed

    def replay_windows(self) -> dict[TopicPartition, int]:
        return {partition: tracker.replay_window for partition, tracker in self._trackers.items()}
