"""One membership of a consumer group, from joining to leaving."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import ConsumerRebalanceListener
from aiokafka import TopicPartition as ClientTopicPartition
from aiokafka.errors import KafkaError

from kb_shared import metrics
from kb_shared.kafka.record import Record, TopicPartition
from kb_shared.kafka.scheduling import Lane
from kb_shared.kafka.survey import Survey
from kb_shared.kafka.tenure import Tenure, Work
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.kafka_connection.connection import KafkaConnection

POLL_TIMEOUT_MS = 200
POLL_MAX_RECORDS = 16
PAUSE_AFTER_S = 1.0
COMMIT_TIMEOUT_S = 5.0
LEAVE_TIMEOUT_S = 10.0
LONGEST_DRAIN_S = 25.0
STALE_POLL_S = 10.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Membership:
    """Who joins which group for what."""

    topics: Mapping[str, Lane]
    group_id: str
    connection: KafkaConnection
    session_timeout_ms: int
    rebalance_timeout_ms: int
    fetch_max_wait_ms: int
    leave_group: bool
    survey_interval_s: float

    @property
    def drain_s(self) -> float:
        """How long running work may go on when partitions are taken away; the rest is for committing."""
        return max(1.0, min(LONGEST_DRAIN_S, self.rebalance_timeout_ms / 1000 - 5))


class Session(ConsumerRebalanceListener):  # type: ignore[misc]  # the client library has no types
    """Polls, and gives each assignment its tenure. Ends at `stop` or with the error that makes it useless."""

    def __init__(self, membership: Membership, work: Work) -> None:
        self._membership = membership
        self._work = work
        self._client = _client(membership)
        self._survey = Survey(self._client, group_id=membership.group_id)
        self._tenure: Tenure | None = None
        self._room = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._polled_at: float | None = None

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned (be it none) and records were asked for lately."""
        assigned = self._tenure is not None and self._tenure.open
        return assigned and self._polled_at is not None and time.monotonic() - self._polled_at < STALE_POLL_S

    @property
    def was_assigned(self) -> bool:
        """Whether the group ever gave this session partitions, be it none."""
        return self._tenure is not None

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records after the committed offset, for each partition assigned, when they were last counted."""
        return dict(self._survey.lag)

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop`; then finish what runs, commit and leave the group.

        Raises:
            KafkaError: the membership is of no more use; a new one may be.
        """
        tasks: list[asyncio.Future[Any]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(self._consume()),
            asyncio.create_task(self._survey_regularly()),
        ]
        try:
            done, _ = await asyncio.wait([*tasks, self._failure], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end_tenure()
            await self._leave()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin a tenure. The client library calls this before it fetches anything of the new assignment."""
        lanes = {TopicPartition(*partition): self._membership.topics[partition.topic] for partition in assigned}
        self._tenure = Tenure(
            self._work,
            lanes,
            commit=self._commit,
            on_progress=self._on_progress,
            on_failure=self._on_failure,
        )
        metrics.CONSUMER_REBALANCES.labels(group=self._membership.group_id).inc()
        log.info("partitions.assigned", group=self._membership.group_id, partitions=len(lanes))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002  # always all of them
        await self._end_tenure()

    async def _consume(self) -> None:
        await self._client.start()
        self._client.subscribe(list(self._membership.topics), listener=self)
        while True:
            await self._regulate()
            batches = await self._client.getmany(timeout_ms=POLL_TIMEOUT_MS, max_records=POLL_MAX_RECORDS)
            self._polled_at = time.monotonic()
            # Nothing is awaited between the client library's return and here: the records are of this tenure.
            for batch in batches.values():
                self._open_tenure().admit(_record(message) for message in batch)

    def _open_tenure(self) -> Tenure:
        if self._tenure is None or not self._tenure.open:
            raise KafkaError("records came without an assignment")
        return self._tenure

    async def _regulate(self) -> None:
        """Before polling: give running work a moment when nothing more can be taken in, then pause what must wait.

        The moment is there because pausing throws away what the client library has fetched ahead.
        """
        if (tenure := self._tenure) is None or not tenure.open:
            return
        if tenure.lanes and len(tenure.held_back()) == len(tenure.lanes):
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_AFTER_S):
                    await self._room.wait()
        if tenure.open:
            self._client.pause(*_as_client(tenure.held_back() - self._client.paused()))

    def _on_progress(self) -> None:
        """Resume at once what need not wait any longer."""
        if (tenure := self._tenure) is None or not tenure.open:
            return
        held_back = tenure.held_back()
        if held_back != tenure.lanes.keys():
            self._room.set()
        self._client.resume(*_as_client(self._client.paused() - held_back))

    def _on_failure(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if not self._is_member():
            return False
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                await self._client.commit(
                    {ClientTopicPartition(*partition): offsets[partition] for partition in offsets}
                )
        except (KafkaError, TimeoutError) as error:
            # Not ours any more, or the broker is away: whoever has the partitions next repeats what was not committed.
            metrics.CONSUMER_COMMIT_FAILURES.labels(group=self._membership.group_id).inc()
            log.warning("commit.failed", group=self._membership.group_id, error=type(error).__name__)
            return False
        return True

    def _is_member(self) -> bool:
        """Whether the broker still counts us in, as far as we know.

        A commit without a membership is taken by a broker that knows no other member, even for a log that is not the
        one the offsets came from: after a restart of a broker without storage, records below them would be skipped.
        """
        return bool(self._client._coordinator.generation >= 0)  # noqa: SLF001  # public nowhere

    async def _survey_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._membership.survey_interval_s)
            if self._tenure is not None and self._tenure.open:
                await self._survey.take(self._tenure)

    async def _end_tenure(self) -> None:
        if self._tenure is not None:
            await self._tenure.close(drain_s=self._membership.drain_s)
            self._survey.forget()

    async def _leave(self) -> None:
        if not self._membership.leave_group and self._client._coordinator is not None:  # noqa: SLF001  # not public
            # What the client library does for static members; to be one has other consequences.
            self._client._coordinator.reset_generation()  # noqa: SLF001  # without a generation nobody is told
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._client.stop()
        except (KafkaError, TimeoutError) as error:
            log.warning("group.left_without_notice", group=self._membership.group_id, error=type(error).__name__)


def _client(membership: Membership) -> Any:
    return consumer_client(
        membership.connection,
        group_id=membership.group_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=membership.session_timeout_ms,
        heartbeat_interval_ms=membership.session_timeout_ms // 8,
        rebalance_timeout_ms=membership.rebalance_timeout_ms,
        fetch_max_wait_ms=membership.fetch_max_wait_ms,
        # What is fetched ahead of 64 records: small, because pausing throws it away.
        max_partition_fetch_bytes=256 * 1024,
        fetch_max_bytes=16 * 1024 * 1024,
    )


def _record(message: Any) -> Record:
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
    )


def _as_client(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [ClientTopicPartition(*partition) for partition in partitions]
