"""Finds the positions from which partitions are read, and reports records that were lost.

A committed offset is valid only for the log that it was committed for. Every commit contains the id of its topic. If
the topic has another id now, it is another log, which is read from its beginning.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from aiokafka import TopicPartition as ClientTopicPartition
from aiokafka.structs import OffsetAndMetadata

from kb_shared.kafka.client_errors import answer_in_time, client_errors
from kb_shared.kafka.partition_assignment import PartitionAssignment
from kb_shared.kafka.record import TopicPartition
from kb_shared.kafka.topic_ids import read_topic_ids
from kb_shared.observability import metrics

_ID_MARK = "topic-id="

log = structlog.get_logger()

OnLost = Callable[[str], Awaitable[None]]
"""Callback for a topic that has lost records, before the group's offset moves past them. Repeated if it raises."""


async def accept_loss(topic: str) -> None:
    """Do nothing: lost records are only counted and logged."""


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Start of reading a partition."""

    position: int
    committed: int | None
    """Committed offset of the group; None if it has none."""

    @property
    def skipped(self) -> int:
        """Return the number of offsets between the committed one and the first that still exists."""
        return 0 if self.committed is None else max(0, self.position - self.committed)


class Positions:
    """Finds positions through the client of one session.

    Args:
        client: the client library's consumer.
        group_id: of the consumer.
        on_lost: called for each topic that has lost records.
        topic_ids: of the topics as this process read them last. Kept up to date, also for later sessions: Kafka deletes
            the committed offsets of a deleted topic, after which only this tells a new topic from one created again.
    """

    def __init__(self, client: Any, *, group_id: str, on_lost: OnLost, topic_ids: dict[str, UUID]) -> None:
        self._client = client
        self._group_id = group_id
        self._on_lost = on_lost
        self._topic_ids = topic_ids

    async def find(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionStart]:
        """Return the start of each newly assigned partition, and report records that were lost before it.

        Raises:
            KafkaError: the broker did not answer.
            Exception: of `on_lost`.
        """
        if not partitions:
            return {}
        async with answer_in_time():
            # Ids first: if a topic is created again after this, its offsets are committed with the old id, and the next
            # owner starts at the beginning.
            topic_ids = await self._read_ids({each.topic for each in partitions})
            committed = await self._committed(partitions)
            beginnings = await self._offsets(self._client.beginning_offsets, partitions)
        marks = {each: committed[each].metadata if each in committed else "" for each in partitions}
        replaced = {each for each, mark in marks.items() if self._is_other_log(each.topic, mark, topic_ids)}
        starts = {}
        for partition, beginning in beginnings.items():
            offset = committed[partition].offset if partition in committed else None
            goes_on = offset is not None and partition not in replaced
            starts[partition] = PartitionStart(max(offset or 0, beginning) if goes_on else beginning, offset)
        await self._report(
            replaced={each: starts[each] for each in replaced},
            skipped={each: start for each, start in starts.items() if each not in replaced},
        )
        self._topic_ids.update(topic_ids)
        return starts

    async def find_again(self, assignment: PartitionAssignment, offsets: Mapping[TopicPartition, int]) -> None:
        """Find new positions after the broker has answered that `offsets`, our positions, are out of range.

        Raises what `find` raises.
        """
        replaced = await self.find_replaced_topics({each.topic for each in offsets})
        async with answer_in_time():
            beginnings = await self._offsets(self._client.beginning_offsets, offsets)
            ends = await self._offsets(self._client.end_offsets, offsets)
        cut = {
            each: PartitionStart(beginnings[each], offset)
            for each, offset in offsets.items()
            if each.topic not in replaced and offset < beginnings[each]
        }
        await self._report(replaced={}, skipped=cut)
        for partition, start in cut.items():
            if assignment.open:
                assignment.ledger.trackers()[partition].advance(start.position)
                self.seek(partition, start.position)
        others = {each for each, offset in offsets.items() if each.topic in replaced or offset > ends[each]}
        await self.restart(assignment, others)

    async def find_replaced_topics(self, topics: Collection[str]) -> set[str]:
        """Return those of `topics` that were deleted and created again since reading began.

        Raises:
            KafkaError: the broker did not answer.
        """
        async with answer_in_time():
            topic_ids = await self._read_ids(topics)
        return {topic for topic, now in topic_ids.items() if self._topic_ids.setdefault(topic, now) != now}

    async def restart(self, assignment: PartitionAssignment, partitions: Iterable[TopicPartition]) -> None:
        """Read `partitions` from the beginning, because our positions come from other logs.

        Raises what `find` raises.
        """
        partitions = list(partitions)
        if not partitions:
            return
        async with answer_in_time():
            topic_ids = await self._read_ids({each.topic for each in partitions})
            beginnings = await self._offsets(self._client.beginning_offsets, partitions)
        starts = {
            each: PartitionStart(beginning, assignment.ledger.committed(each)) for each, beginning in beginnings.items()
        }
        await self._report(replaced=starts, skipped={})
        if not assignment.open:
            return
        # No await from here on: a commit contains either the old offset and id or the new ones.
        self._topic_ids.update(topic_ids)
        for partition, start in starts.items():
            assignment.ledger.start(partition, start.position, committed=start.committed)
            self.seek(partition, start.position)

    def begin(self, assignment: PartitionAssignment, starts: Mapping[TopicPartition, PartitionStart]) -> None:
        """Start reading at the positions that `find` returned."""
        for partition, start in starts.items():
            assignment.ledger.start(partition, start.position, committed=start.committed)
            self.seek(partition, start.position)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at `offset`. What the client library has fetched of the partition is discarded."""
        with client_errors():
            self._client.seek(ClientTopicPartition(*partition), offset)

    def mark(self, topic: str) -> str:
        """Return the metadata of a commit for `topic`, which names the log of its offset."""
        topic_id = self._topic_ids.get(topic)
        return "" if topic_id is None else f"{_ID_MARK}{topic_id}"

    def _is_other_log(self, topic: str, mark: str, topic_ids: Mapping[str, UUID]) -> bool:
        """Return whether a committed offset belongs to another log than the current one.

        If the broker does not store the metadata, or has deleted the offset together with the topic, the id that this
        process has seen before counts. An offset without either is trusted: an older version of this service or an
        operator has committed it.
        """
        now = topic_ids.get(topic)
        if now is None:
            return False
        if mark.startswith(_ID_MARK):
            return mark != f"{_ID_MARK}{now}"
        return self._topic_ids.get(topic, now) != now

    async def _committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        # Not `client.committed`, which does not return the metadata.
        coordinator = self._client._coordinator  # noqa: SLF001  # public nowhere
        answer = await coordinator.fetch_committed_offsets([ClientTopicPartition(*each) for each in partitions])
        return {TopicPartition(*partition): offset for partition, offset in answer.items()}

    async def _offsets(
        self, ask: Callable[[list[Any]], Awaitable[Any]], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        answer = await ask([ClientTopicPartition(*each) for each in partitions])
        return {TopicPartition(*partition): offset for partition, offset in answer.items()}

    async def _read_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        return await read_topic_ids(self._client._client, topics)  # noqa: SLF001  # public nowhere

    async def _report(
        self, *, replaced: Mapping[TopicPartition, PartitionStart], skipped: Mapping[TopicPartition, PartitionStart]
    ) -> None:
        lost = {each: start for each, start in skipped.items() if start.skipped}
        for topic in {each.topic for each in [*replaced, *lost]}:
            await self._on_lost(topic)
        for partition, start in lost.items():
            metrics.CONSUMER_SKIPPED_RECORDS.labels(topic=partition.topic, group=self._group_id).inc(start.skipped)
            log.error(
                "records.skipped",
                group=self._group_id,
                topic=partition.topic,
                partition=partition.partition,
                first_offset=start.committed,
                last_offset=start.position - 1,
                reason="deleted before they were read",
            )
        for topic in {each.topic for each in replaced}:
            starts = {each.partition: start for each, start in replaced.items() if each.topic == topic}
            metrics.CONSUMER_REPLACED_LOGS.labels(topic=topic, group=self._group_id).inc(len(starts))
            log.error(
                "log.replaced",
                group=self._group_id,
                topic=topic,
                old_offsets={partition: start.committed for partition, start in starts.items()},
                new_offsets={partition: start.position for partition, start in starts.items()},
            )
