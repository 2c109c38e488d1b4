"""How far behind the group is, and whether the log it reads is still the one its offsets came from."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from aiokafka import TopicPartition as ClientTopicPartition
from aiokafka.errors import KafkaError

from kb_shared import metrics
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.tenure import Tenure

TIMEOUT_S = 5.0

log = structlog.get_logger()


class Survey:
    """Compares positions with the ends of the logs, through the client of one membership."""

    def __init__(self, client: Any, *, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._beyond: dict[TopicPartition, int] = {}
        self.lag: dict[TopicPartition, int] = {}

    async def take(self, tenure: Tenure) -> None:
        """Count the lag and go back to the beginning of logs that are shorter than our position in them.

        Does nothing while the broker does not answer.
        """
        try:
            async with asyncio.timeout(TIMEOUT_S):
                positions = {partition: await self._position(partition) for partition in tenure.lanes}
                ends = await self._ends(tenure.lanes)
                if tenure.open:
                    self._count(tenure, positions, ends)
                    await self._go_back(positions)
        except (KafkaError, TimeoutError) as error:
            log.debug("survey.failed", group=self._group_id, error=type(error).__name__)

    def forget(self) -> None:
        """Drop what is known of partitions that may now be somebody else's."""
        for partition in self.lag:
            metrics.CONSUMER_LAG_RECORDS.remove_by_labels(self._labels(partition))
        self.lag = {}
        self._beyond = {}

    async def _position(self, partition: TopicPartition) -> int:
        return int(await self._client.position(ClientTopicPartition(*partition)))

    async def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the broker says, or what came with the last fetch if that is more.

        The first is too low on Tansu, which counts a batch of records as one; the second is old while we pause.
        """
        told = await self._client.end_offsets([ClientTopicPartition(*partition) for partition in partitions])
        return {
            TopicPartition(*partition): max(end, self._high_water(partition) or 0) for partition, end in told.items()
        }

    def _high_water(self, partition: TopicPartition) -> int | None:
        """The end of the log as of the last fetch; None before the first."""
        end: int | None = self._client.highwater(ClientTopicPartition(*partition))
        return end

    def _count(
        self, tenure: Tenure, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        for partition, position in positions.items():
            committed = tenure.ledger.committed(partition)
            self.lag[partition] = max(0, ends[partition] - (position if committed is None else committed))
            metrics.CONSUMER_LAG_RECORDS.labels(**self._labels(partition)).set(self.lag[partition])

    async def _go_back(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start anew where a fetch said twice running that the log ends before our position.

        Kafka says OffsetOutOfRange by itself; Tansu, which loses its logs at a restart, answers such a fetch with
        nothing for ever. Twice, because after a change of leader Kafka's end of log can be too low for a moment.
        """
        beyond = {
            partition: position
            for partition, position in positions.items()
            if (end := self._high_water(partition)) is not None and position > end
        }
        lost = [partition for partition, position in beyond.items() if self._beyond.get(partition) == position]
        self._beyond = beyond
        if lost:
            log.warning("log.shorter_than_position", group=self._group_id, partitions=len(lost))
            await self._client.seek_to_beginning(*(ClientTopicPartition(*partition) for partition in lost))

    def _labels(self, partition: TopicPartition) -> dict[str, str]:
        return {"topic": partition.topic, "partition": str(partition.partition), "group": self._group_id}
