"""Commits offsets, each with the id of its topic, and only while this process is a member of the group."""

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from aiokafka import TopicPartition as ClientTopicPartition
from aiokafka.errors import CommitFailedError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from kb_shared.kafka.client_errors import client_errors
from kb_shared.kafka.positions import Positions
from kb_shared.kafka.record import TopicPartition
from kb_shared.observability import metrics
from kb_shared.observability.log_limit import LogLimit

COMMIT_TIMEOUT_S = 5.0
COMMIT_RETRY_S = 0.1

log = structlog.get_logger()


class OffsetCommitter:
    """Commits the offsets of one session."""

    def __init__(self, client: Any, positions: Positions, *, group_id: str) -> None:
        self._client = client
        self._positions = positions
        self._group_id = group_id
        self._limit = LogLimit()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets and return whether it succeeded. Never raises."""
        if not self._is_member():
            return False
        marked = {
            ClientTopicPartition(*partition): OffsetAndMetadata(offset, self._positions.mark(partition.topic))
            for partition, offset in offsets.items()
        }
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                with client_errors():
                    await self._commit_as_member(marked)
        except (KafkaError, TimeoutError) as error:
            # The partitions are revoked, or the broker is away. The next owner repeats what is not committed.
            metrics.CONSUMER_COMMIT_FAILURES.labels(group=self._group_id).inc()
            if (left_out := self._limit.admit(type(error).__name__)) is not None:
                log.warning("commit.failed", group=self._group_id, error=type(error).__name__, left_out=left_out)
            return False
        return True

    async def _commit_as_member(self, offsets: Mapping[Any, OffsetAndMetadata]) -> None:
        """Commit with the current generation, and retry only while it lasts.

        The client library's own `commit` retries with the generation of that time. After a freeze there is none, and an
        empty group accepts such a commit although other members have read further in the meantime.
        """
        coordinator = self._client._coordinator  # noqa: SLF001  # public nowhere
        generation = coordinator.generation, coordinator.member_id
        while True:
            await coordinator.ensure_coordinator_known()
            if (coordinator.generation, coordinator.member_id) != generation:
                raise CommitFailedError
            try:
                # Shielded: the client library has to see the answer to its request, even if we are cancelled.
                await asyncio.shield(coordinator._do_commit_offsets(None, offsets))  # noqa: SLF001  # public nowhere
            except KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(COMMIT_RETRY_S)
            else:
                return

    def _is_member(self) -> bool:
        """Return whether this client is still a member of the group, as far as it knows.

        A broker accepts a commit without a generation if the group is empty, even for a log that is not the one of the
        offsets. After a restart of a broker without storage, records below these offsets would be skipped.
        """
        return bool(self._client._coordinator.generation >= 0)  # noqa: SLF001  # public nowhere
