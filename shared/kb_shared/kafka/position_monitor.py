"""How far behind the group is, and whether the log it reads is still the one its offsets came from."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from aiokafka import TopicPartition as ClientTopicPartition

from kb_shared.kafka.client_errors import answer_in_time
from kb_shared.kafka.partition_assignment import PartitionAssignment
from kb_shared.kafka.positions import Positions
from kb_shared.kafka.record import TopicPartition
from kb_shared.observability import metrics
from kb_shared.observability.log_limit import LogLimit

log = structlog.get_logger()


class PositionMonitor:
    """Compares positions with the ends of the logs, through the client of one membership."""

    def __init__(self, client: Any, positions: Positions, *, group_id: str) -> None:
        self._client = client
        self._positions = positions
        self._group_id = group_id
        self._beyond: dict[TopicPartition, int] = {}
        self._limit = LogLimit()
        self.lag: dict[TopicPartition, int] = {}

    async def check(self, assignment: PartitionAssignment) -> None:
        """Count the lag and go back to the beginning of logs that are not the ones our positions came from.

        Failures are counted and logged; the next call tries again.
        """
        self._measure_age(assignment)
        try:
            await self._compare(assignment)
        except Exception as error:  # noqa: BLE001  # `on_lost` may raise anything; what it is must not end the consumer
            if assignment.open:
                self._note_failure(error)

    def forget(self, assignment: PartitionAssignment) -> None:
        """Drop what is known of partitions that may now be somebody else's."""
        for partition in self.lag:
            metrics.CONSUMER_LAG_RECORDS.remove_by_labels(self._labels(partition))
        for topic in {partition.topic for partition in assignment.lanes}:
            metrics.CONSUMER_STUCK_SECONDS.remove_by_labels({"topic": topic, "group": self._group_id})
        self.lag = {}
        self._beyond = {}

    async def _compare(self, assignment: PartitionAssignment) -> None:
        # Before the positions: a tracker that is replaced meanwhile must not advance to a position of the old log.
        trackers = assignment.ledger.trackers()
        async with answer_in_time():
            positions = {partition: await self._position(partition) for partition in assignment.lanes}
            told = await self._told_ends(assignment.lanes)
            if not assignment.open:
                return
            high_waters = {partition: self._high_water(partition) for partition in assignment.lanes}
        # What lies between the last record and the position are markers of transactions: nothing to wait for.
        for partition, tracker in trackers.items():
            tracker.advance(positions[partition])
        self._count(assignment, positions, {each: max(end, high_waters[each] or 0) for each, end in told.items()})
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
        for partition, at in assignment.ledger.oldest_unfinished_at().items():
            oldest[partition.topic] = max(oldest[partition.topic], now - at)
        for topic, age_s in oldest.items():
            metrics.CONSUMER_STUCK_SECONDS.labels(topic=topic, group=self._group_id).set(age_s)

    async def _position(self, partition: TopicPartition) -> int:
        return int(await self._client.position(ClientTopicPartition(*partition)))

    async def _told_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Ask the broker for the last stable offsets.

        It is too low on Tansu, which counts a batch of records as one. The end that came with the last fetch is old
        while we pause, and counts records of open transactions. So the greater of both is taken.
        """
        told = await self._client.end_offsets([ClientTopicPartition(*partition) for partition in partitions])
        return {TopicPartition(*partition): end for partition, end in told.items()}

    def _high_water(self, partition: TopicPartition) -> int | None:
        """The end of the log as of the last fetch; None before the first."""
        end: int | None = self._client.highwater(ClientTopicPartition(*partition))
        return end

    def _count(
        self,
        assignment: PartitionAssignment,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        for partition, position in positions.items():
            committed = assignment.ledger.committed(partition)
            self.lag[partition] = max(0, ends[partition] - (position if committed is None else committed))
            metrics.CONSUMER_LAG_RECORDS.labels(**self._labels(partition)).set(self.lag[partition])

    def _beyond_the_end(
        self, positions: Mapping[TopicPartition, int], high_waters: Mapping[TopicPartition, int | None]
    ) -> set[TopicPartition]:
        """Return where a fetch said twice running that the log ends before our position.

        Kafka says OffsetOutOfRange by itself; Tansu, which loses its logs at a restart, answers such a fetch with
        nothing for ever. Twice, because after a change of leader Kafka's end of log can be too low for a moment.
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
