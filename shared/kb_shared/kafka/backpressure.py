"""Decides which partitions are paused and when they are resumed. Pure."""

from collections.abc import Mapping

from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.scheduling import Lane


class Gate:
    """Closes when a level reaches `high` and opens at `low`. With a single threshold it would flap."""

    def __init__(self, *, high: int, low: int) -> None:
        self._high = high
        self._low = low
        self.closed = False

    def update(self, level: int) -> bool:
        """Record the level; return whether the gate is closed now."""
        self.closed = level > self._low if self.closed else level >= self._high
        return self.closed


class Backpressure:
    """Decides which partitions to pause.

    All partitions of a lane are paused when enough of its records wait to keep all slots busy. A partition is paused
    when a crash would repeat too many of its records. All are paused when the records in memory are too large.
    """

    def __init__(self, *, max_in_flight: int, max_replay: int, max_held_bytes: int) -> None:
        self._lanes = {lane: Gate(high=4 * max_in_flight, low=max_in_flight) for lane in Lane}
        self._memory = Gate(high=max_held_bytes, low=max_held_bytes // 2)
        self._partitions: dict[TopicPartition, Gate] = {}
        self._max_replay = max_replay

    def find_partitions_to_pause(
        self,
        partitions: Mapping[TopicPartition, Lane],
        *,
        active: Mapping[Lane, int],
        replay_windows: Mapping[TopicPartition, int],
        held_bytes: int,
    ) -> frozenset[TopicPartition]:
        """Return the partitions from which no more records should be fetched now."""
        full = self._memory.update(held_bytes)
        closed_lanes = {lane for lane, gate in self._lanes.items() if gate.update(active[lane])}
        return frozenset(
            partition
            for partition, lane in partitions.items()
            # First, because each gate has to see every level.
            if self._gate(partition).update(replay_windows.get(partition, 0)) or full or lane in closed_lanes
        )

    def _gate(self, partition: TopicPartition) -> Gate:
        if partition not in self._partitions:
            self._partitions[partition] = Gate(high=self._max_replay, low=self._max_replay * 4 // 5)
        return self._partitions[partition]
