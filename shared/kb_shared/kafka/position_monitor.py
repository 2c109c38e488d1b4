"""Measures the Kafka lag of the group, and notices when a log is not the one that its offsets came from."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from aiokafka import TopicPartition as ClientTopicPartition

from kb_shared.kafka.client_errors import answer_in_time
from kb_shared.kafka.offsets import OffsetTracker
from kb_shared.kafka.partition_assignment import PartitionAssignment
from kb_shared.kafka.positions import Positions
from kb_shared.kafka.record import TopicPartition
from kb_shared.observability import metrics
from kb_shared.observability.log_limit import LogLimit

log = structlog.get_logger()


class PositionMonitor:
    """Compares positions with the ends of the logs, through the client of one session."""

    def __init__(self, client: Any, positions: Positions, *, group_id: str) -> None:
        self._client = client
        self._positions = positions
        self._group_id = group_id
        self._beyond: dict[TopicPartition, int] = {}
        self._awaited: dict[TopicPartition, tuple[int, float]] = {}
        """Offsets that exist and were not fetched yet, each with the monotonic time of the check that found it."""
        self._limit = LogLimit()
        self.lag: dict[TopicPartition, int] = {}

    async def check(self, assignment: PartitionAssignment) -> None:
        """Measure the lag, and restart logs at their beginning if our positions come from other logs.

        Failures are counted and logged; the next call tries again.
        """
        self._measure_age(assignment)
        try:
            await self._compare(assignment)
        except Exception as error:  # noqa: BLE001  # no error of `on_lost` may end the consumer
            if assignment.open:
                self._note_failure(error)

    def forget(self, assignment: PartitionAssignment) -> None:
        """Remove the lag and the metrics of partitions that another member may own now."""
        for partition in self.lag:
            metrics.CONSUMER_LAG_RECORDS.remove_by_labels(self._labels(partition))
            metrics.CONSUMER_LAG_SECONDS.remove_by_labels(self._labels(partition))
        for topic in {partition.topic for partition in assignment.lanes}:
            metrics.CONSUMER_STUCK_SECONDS.remove_by_labels({"topic": topic, "group": self._group_id})
        self.lag = {}
        self._awaited = {}
        self._beyond = {}

    async def _compare(self, assignment: PartitionAssignment) -> None:
        # Before the positions: a tracker that is replaced in between must not advance to a position of the old log.
        trackers = assignment.ledger.trackers()
        async with answer_in_time():
            positions = {partition: await self._position(partition) for partition in assignment.lanes}
            ends = await self._read_end_offsets(assignment.lanes)
            if not assignment.open:
                return
            high_waters = {partition: self._high_water(partition) for partition in assignment.lanes}
        # Between the last record and the position there are only transaction markers: nothing to wait for.
        for partition, tracker in trackers.items():
            tracker.advance(positions[partition])
        self._set_lag(
            assignment, positions, ends={each: max(end, high_waters[each] or 0) for each, end in ends.items()}
        )
        replaced = await self._positions.find_replaced_topics({partition.topic for partition in assignment.lanes})
        lost = {partition for partition in assignment.lanes if partition.topic in replaced}
        if assignment.open:
            lost |= self._beyond_the_end(positions, high_waters)
            await self._positions.restart(assignment, lost)

    def _note_failure(self, error: Exception) -> None:
        metrics.CONSUMER_SURVEY_FAILURES.labels(group=self._group_id).inc()
        if (left_out := self._limit.admit(type(error).__name__)) is not None:
            log.warning("positions.check_failed", group=self._group_id, error=type(error).__name__, left_out=left_out)

    def _measure_age(self, assignment: PartitionAssignment) -> None:
        oldest: dict[str, float] = dict.fromkeys((partition.topic for partition in assignment.lanes), 0.0)
        now = time.monotonic()
        for partition, first in assignment.ledger.first_unfinished().items():
            oldest[partition.topic] = max(oldest[partition.topic], now - first.at)
        for topic, age_s in oldest.items():
            metrics.CONSUMER_STUCK_SECONDS.labels(topic=topic, group=self._group_id).set(age_s)

    async def _position(self, partition: TopicPartition) -> int:
        return int(await self._client.position(ClientTopicPartition(*partition)))

    async def _read_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Read the last stable offsets from the broker.

        They are too low on Tansu, which counts a batch of records as one. The high watermark of the last fetch is old
        while partitions are paused, and counts records of open transactions. So the caller uses the greater of both.
        """
        answer = await self._client.end_offsets([ClientTopicPartition(*partition) for partition in partitions])
        return {TopicPartition(*partition): end for partition, end in answer.items()}

    def _high_water(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch; None before the first."""
        end: int | None = self._client.highwater(ClientTopicPartition(*partition))
        return end

    def _set_lag(
        self,
        assignment: PartitionAssignment,
        positions: Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int],
    ) -> None:
        trackers = assignment.ledger.trackers()
        for partition, position in positions.items():
            committed = assignment.ledger.committed(partition)
            self.lag[partition] = max(0, ends[partition] - (position if committed is None else committed))
            metrics.CONSUMER_LAG_RECORDS.labels(**self._labels(partition)).set(self.lag[partition])
            age_s = self._measure_age_of_next(partition, trackers[partition], end=ends[partition])
            metrics.CONSUMER_LAG_SECONDS.labels(**self._labels(partition)).set(age_s)

    def _measure_age_of_next(self, partition: TopicPartition, tracker: OffsetTracker, *, end: int) -> float:
        """Return the age of the first record that is not handled, in seconds; 0 if all before `end` are.

        Not the time since the last record that was handled: after a quiet hour, the next one is not an hour late.
        """
        first = tracker.first_unfinished
        if first is not None or tracker.safe >= end:
            self._awaited.pop(partition, None)
            # The clock of the producer may be ahead of ours.
            return 0.0 if first is None else max(0.0, time.time() - first.written_at)
        # Its time is known only when it comes. Until then it is at least as old as the check that found it.
        now = time.monotonic()
        offset, since = self._awaited.get(partition, (tracker.safe, now))
        if offset != tracker.safe:
            since = now
        self._awaited[partition] = tracker.safe, since
        return now - since

    def _beyond_the_end(
        self, positions: Mapping[TopicPartition, int], high_waters: Mapping[TopicPartition, int | None]
    ) -> set[TopicPartition]:
        """Return the partitions whose log ended before our position in two checks in a row.

        Kafka answers such a fetch with OffsetOutOfRange. Tansu, which loses its logs at a restart, answers it with
        nothing for ever. Two checks, because after a change of leader Kafka's high watermark can be too low for a
        moment.
        """
        beyond = {
            partition: position
            for partition, position in positions.items()
            if (end := high_waters[partition]) is not None and position > end
        }
        lost = {partition for partition, position in beyond.items() if self._beyond.get(partition) == position}
        self._beyond = beyond
        return lost

    def _labels(self, partition: TopicPartition) -> dict[str, str]:
        return {"topic": partition.topic, "partition": str(partition.partition), "group": self._group_id}
