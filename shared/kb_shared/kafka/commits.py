"""Commits offsets, each with the id of the topic that it is of, and only as a member of the group."""

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


class Commits:
    """Stores the offsets of one membership."""

    def __init__(self, client: Any, positions: Positions, *, group_id: str) -> None:
        self._client = client
        self._positions = positions
        self._group_id = group_id
        self._limit = LogLimit()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Store offsets and return whether it did; never raises."""
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
            # Not ours any more, or the broker is away: whoever has the partitions next repeats what was not committed.
            metrics.CONSUMER_COMMIT_FAILURES.labels(group=self._group_id).inc()
            if (left_out := self._limit.admit(type(error).__name__)) is not None:
                log.warning("commit.failed", group=self._group_id, error=type(error).__name__, left_out=left_out)
            return False
        return True

    async def _commit_as_member(self, offsets: Mapping[Any, OffsetAndMetadata]) -> None:
        """Commit under the membership of now, and try again only while it lasts.

        The client library's own `commit` tries again under whatever membership there is then. After a freeze that is
        none, and a group that is empty by then takes such a commit, although others have read on meanwhile.
        """
        coordinator = self._client._coordinator  # noqa: SLF001  # public nowhere
        membership = coordinator.generation, coordinator.member_id
        while True:
            await coordinator.ensure_coordinator_known()
            if (coordinator.generation, coordinator.member_id) != membership:
                raise CommitFailedError
            try:
                # Shielded: the client library has to see the answer to a request that it has sent, also if we end.
                await asyncio.shield(coordinator._do_commit_offsets(None, offsets))  # noqa: SLF001  # public nowhere
            except KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(COMMIT_RETRY_S)
            else:
                return

    def _is_member(self) -> bool:
        """Return whether this client is still a member of the group, as far as it knows.

        A commit without a membership is taken by a broker that knows no other member, even for a log that is not the
        one the offsets came from: after a restart of a broker without storage, records below them would be skipped.
        """
        return bool(self._client._coordinator.generation >= 0)  # noqa: SLF001  # public nowhere
