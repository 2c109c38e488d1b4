"""When to stop taking records in and when to go on. Pure."""

from collections.abc import Mapping

from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.scheduling import Lane


class Gate:
    """Closed from `high` on, until the level is down to `low`: one mark alone would flap."""

    def __init__(self, *, high: int, low: int) -> None:
        self._high = high
        self._low = low
        self.closed = False

    def update(self, level: int) -> bool:
        """Note the level; return whether the gate is closed now."""
        self.closed = level > self._low if self.closed else level >= self._high
        return self.closed


class Backpressure:
    """Decides which partitions to hold back.

    A lane closes when enough of its records wait to keep all slots busy, whichever organization has its share of them;
    a partition when a crash would repeat too many of its records; all of them when what is held in memory is too large.
    """

    def __init__(self, *, max_in_flight: int, max_replay: int, max_held_bytes: int) -> None:
        self._lanes = {lane: Gate(high=4 * max_in_flight, low=max_in_flight) for lane in Lane}
        self._memory = Gate(high=max_held_bytes, low=max_held_bytes // 2)
        self._partitions: dict[TopicPartition, Gate] = {}
        self._max_replay = max_replay

    def held_back(
        self,
        partitions: Mapping[TopicPartition, Lane],
        *,
        in_stock: Mapping[Lane, int],
        replay_windows: Mapping[TopicPartition, int],
        held_bytes: int,
    ) -> frozenset[TopicPartition]:
        """Return those of `partitions` whose records should not come now."""
        full = self._memory.update(held_bytes)
        closed_lanes = {lane for lane, gate in self._lanes.items() if gate.update(in_stock[lane])}
        return frozenset(
            partition
            for partition, lane in partitions.items()
            # The gate is updated whatever the others say, or it would miss its own marks.
            if self._gate(partition).update(replay_windows.get(partition, 0)) or full or lane in closed_lanes
        )

    def _gate(self, partition: TopicPartition) -> Gate:
        if partition not in self._partitions:
            self._partitions[partition] = Gate(high=self._max_replay, low=self._max_replay * 4 // 5)
        return self._partitions[partition]
