"""Runs one session of a consumer in its group, from joining to leaving."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from aiokafka import ConsumerRebalanceListener
from aiokafka import TopicPartition as ClientTopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from kb_shared.kafka.client_errors import client_errors
from kb_shared.kafka.commits import OffsetCommitter
from kb_shared.kafka.partition_assignment import PartitionAssignment, RecordWork
from kb_shared.kafka.position_monitor import PositionMonitor
from kb_shared.kafka.positions import OnLost, Positions
from kb_shared.kafka.record import Record, TopicPartition
from kb_shared.kafka.retries import pause_s
from kb_shared.kafka.scheduling import Lane
from kb_shared.kafka_connection.clients import consumer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.kafka_connection.fetched_batches import find_unreadable
from kb_shared.observability import metrics
from kb_shared.observability.log_limit import LogLimit

POLL_TIMEOUT_MS = 500
"""Longest pause of a poll that finds nothing; records end it at once."""
POLL_MAX_RECORDS = 16
PAUSE_AFTER_S = 1.0
LEAVE_TIMEOUT_S = 5.0
_SHORTEST_HEARTBEAT_MS = 1_000
LONGEST_DRAIN_S = 25.0
STALE_POLL_S = 10.0
METADATA_MAX_AGE_MS = 10_000
"""Age of metadata after which it is read again, which finds topics that were created again."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Group, topics and client settings of a consumer."""

    topics: Mapping[str, Lane]
    group_id: str
    connection: KafkaConnection
    session_timeout_ms: int
    rebalance_timeout_ms: int
    fetch_max_wait_ms: int
    leave_group: bool
    unreadable_tries: int
    position_check_interval_s: float
    on_lost: OnLost

    @property
    def drain_s(self) -> float:
        """Return the time for running work after partitions are revoked; the rest of the timeout is for the commit."""
        return max(1.0, min(LONGEST_DRAIN_S, self.rebalance_timeout_ms / 1000 - 5))


class ConsumerSession(ConsumerRebalanceListener):  # type: ignore[misc]  # the client library has no types
    """Polls, and creates an object for each assignment. Ends at `stop` or with an error."""

    def __init__(self, config: ConsumerGroupConfig, work: RecordWork, *, topic_ids: dict[str, UUID]) -> None:
        self._config = config
        self._work = work
        self._client = _client(config)
        self._positions = Positions(self._client, group_id=config.group_id, on_lost=config.on_lost, topic_ids=topic_ids)
        self._commits = OffsetCommitter(self._client, self._positions, group_id=config.group_id)
        self._monitor = PositionMonitor(self._client, self._positions, group_id=config.group_id)
        self._assignment: PartitionAssignment | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._revoked_at: float | None = None
        self._leaving = False
        self._limit = LogLimit()
        self._room = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._polled_at: float | None = None

    @property
    def ready(self) -> bool:
        """Return whether there is an assignment, possibly of no partitions, and the last poll is recent."""
        assigned = self._assignment is not None and self._assignment.open
        return assigned and self._polled_at is not None and time.monotonic() - self._polled_at < STALE_POLL_S

    @property
    def polled_at(self) -> float | None:
        """Return the monotonic time of the last poll with an assignment; None before the first."""
        return self._polled_at

    @property
    def was_assigned(self) -> bool:
        """Return whether this session ever had an assignment, possibly of no partitions."""
        return self._assignment is not None

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Return the Kafka lag in records of each assigned partition, as last counted."""
        return dict(self._monitor.lag)

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop`, then finish running work, commit and leave the group.

        Raises:
            KafkaError: this session can't go on; a new one may succeed.
        """
        tasks: list[asyncio.Future[Any]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(self._consume()),
            asyncio.create_task(self._check_positions_regularly()),
        ]
        try:
            done, _ = await asyncio.wait([*tasks, self._failure], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.cancelled():
                    raise KafkaError("the client library has cancelled its own task")
                task.result()
        finally:
            self._leaving = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end_assignment()
            await self._leave()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Start an assignment. The client library calls this before it fetches records of the new assignment."""
        if self._leaving:
            # The rebalance ended after this session began to leave: the group assigns these partitions again.
            return
        lanes = {TopicPartition(*partition): self._config.topics[partition.topic] for partition in assigned}
        assignment = self._assignment = PartitionAssignment(
            self._work,
            lanes,
            commit=self._commits.commit,
            on_progress=self._on_progress,
            on_failure=self._on_failure,
        )
        for partition in _as_client(lanes):
            # Any position, so that the client library looks for none: nothing is fetched before `_find_positions`.
            self._client.pause(partition)
            self._client.seek(partition, 0)
        self._beginning = asyncio.create_task(self._find_positions(assignment))
        self._note_assignment(len(lanes))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002  # always all of them
        """End the assignment. The client library asks the group for a new assignment after this."""
        if self._assignment is not None and self._revoked_at is None:
            self._revoked_at = time.monotonic()
        await self._end_assignment()

    def _note_assignment(self, partitions: int) -> None:
        group = self._config.group_id
        metrics.CONSUMER_REBALANCES.labels(group=group).inc()
        paused_s = None
        if self._revoked_at is not None:
            paused_s = round(time.monotonic() - self._revoked_at, 3)
            metrics.CONSUMER_REBALANCE_SECONDS.labels(group=group).observe(paused_s)
            self._revoked_at = None
        log.info("partitions.assigned", group=group, partitions=partitions, paused_s=paused_s)

    async def _find_positions(self, assignment: PartitionAssignment) -> None:
        """Find the positions of an assignment, then start fetching."""
        tries = 0
        while assignment.open:
            try:
                starts = await self._positions.find(assignment.lanes.keys())
                if assignment.open:
                    self._positions.begin(assignment, starts)
                    self._beginning = None
                    self._on_progress()
            except Exception as error:  # noqa: BLE001  # `on_lost` may raise any error
                tries += 1
                self._warn("positions.not_found", error)
                await asyncio.sleep(pause_s(tries))
            else:
                return

    async def _consume(self) -> None:
        with client_errors():
            await self._client.start()
            self._client.subscribe(list(self._config.topics), listener=self)
        while True:
            await self._apply_backpressure()
            batches = await self._poll()
            if self._running_assignment() is not None:
                self._polled_at = time.monotonic()
            # No await between the return of the client library and here: the records are of this assignment.
            for partition, messages in batches.items():
                self._admit(TopicPartition(*partition), [_record(message) for message in messages])

    def _admit(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        self._open_assignment().admit(records)
        if records and (unreadable := records[-1].unreadable) is not None:
            # The client library is behind one of its offsets, and would fetch the others if it is paused now.
            self._positions.seek(partition, unreadable.last_offset + 1)

    async def _poll(self) -> Mapping[Any, Any]:
        try:
            with client_errors():
                batches: Mapping[Any, Any] = await self._client.getmany(
                    timeout_ms=POLL_TIMEOUT_MS, max_records=POLL_MAX_RECORDS
                )
        except OffsetOutOfRangeError as error:
            outside = {TopicPartition(*partition): offset for partition, offset in error.args[0].items()}
            await self._reset_positions(outside)
            return {}
        return batches

    async def _reset_positions(self, outside: Mapping[TopicPartition, int]) -> None:
        assignment = self._open_assignment()
        try:
            await self._positions.find_again(assignment, outside)
        except Exception as error:  # noqa: BLE001  # `on_lost` may raise any error
            # The same error comes again with the next fetch.
            self._warn("positions.not_found", error)
            await asyncio.sleep(pause_s(1))

    def _warn(self, event: str, error: Exception) -> None:
        if (left_out := self._limit.admit((event, type(error)))) is not None:
            group = self._config.group_id
            log.warning(event, group=group, error=type(error).__name__, left_out=left_out)

    def _open_assignment(self) -> PartitionAssignment:
        if self._assignment is None or not self._assignment.open:
            raise KafkaError("records came without an assignment")
        return self._assignment

    async def _apply_backpressure(self) -> None:
        """Pause partitions before a poll, after a short wait if all of them would be paused.

        Pausing discards the records that the client library has prefetched, and the wait often makes it unnecessary.
        """
        if (assignment := self._running_assignment()) is None:
            return
        if assignment.lanes and len(assignment.find_partitions_to_pause()) == len(assignment.lanes):
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_AFTER_S):
                    await self._room.wait()
        if assignment.open:
            with client_errors():
                self._client.pause(*_as_client(assignment.find_partitions_to_pause() - self._client.paused()))

    def _on_progress(self) -> None:
        """Resume at once the partitions that need not be paused any longer."""
        if (assignment := self._running_assignment()) is None:
            return
        partitions_to_pause = assignment.find_partitions_to_pause()
        if partitions_to_pause != assignment.lanes.keys():
            self._room.set()
        with client_errors():
            self._client.resume(*_as_client(self._client.paused() - partitions_to_pause))

    def _running_assignment(self) -> PartitionAssignment | None:
        """Return the assignment if it is open and its positions are found; None otherwise."""
        assignment = self._assignment
        return assignment if assignment is not None and assignment.open and self._beginning is None else None

    def _on_failure(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _check_positions_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._config.position_check_interval_s)
            if (assignment := self._running_assignment()) is not None:
                await self._monitor.check(assignment)

    async def _end_assignment(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
        if self._assignment is not None:
            await self._assignment.close(drain_s=self._config.drain_s)
            self._monitor.forget(self._assignment)

    async def _leave(self) -> None:
        if not self._config.leave_group and self._client._coordinator is not None:  # noqa: SLF001  # not public
            # The client library does this for static members, which have other disadvantages.
            self._client._coordinator.reset_generation()  # noqa: SLF001  # without a generation no request to leave is sent
        # A task of its own: tasks of the client library that it cancels may cancel the task that calls it.
        stopping = asyncio.create_task(self._client.stop())
        await asyncio.wait({stopping}, timeout=LEAVE_TIMEOUT_S)
        if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
            return
        stopping.cancel()
        group = self._config.group_id
        log.warning("group.left_without_notice", group=group, error=_kind_of(stopping))
        # The last step of `stop`, also in a task of its own: it waits for what was cancelled with the other one.
        closing = asyncio.create_task(self._client._client.close())  # noqa: SLF001  # public nowhere
        await asyncio.wait({closing}, timeout=LEAVE_TIMEOUT_S)
        closing.cancel()
        if closing.done() and not closing.cancelled():
            # Retrieved, so that asyncio does not log it.
            closing.exception()


def _heartbeat_interval_ms(session_timeout_ms: int) -> int:
    """Return an eighth of the session, so that rebalances are noticed soon; of short sessions up to a third."""
    return min(max(session_timeout_ms // 8, _SHORTEST_HEARTBEAT_MS), session_timeout_ms // 3)


def _client(config: ConsumerGroupConfig) -> Any:
    return consumer_client(
        config.connection,
        group_id=config.group_id,
        unreadable_tries=config.unreadable_tries,
        enable_auto_commit=False,
        # `Positions` finds the positions; a position out of range raises an error that we handle.
        auto_offset_reset="none",
        # Records of a transaction that the upstream has aborted must not be applied.
        isolation_level="read_committed",
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=_heartbeat_interval_ms(config.session_timeout_ms),
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        fetch_max_wait_ms=config.fetch_max_wait_ms,
        # Longest pause of the task that fetches; assignments, resumed partitions and answers end it at once.
        consumer_timeout_ms=POLL_TIMEOUT_MS,
        # Prefetched bytes of a partition: few, because pausing discards them.
        max_partition_fetch_bytes=256 * 1024,
        fetch_max_bytes=16 * 1024 * 1024,
    )


def _record(message: Any) -> Record:
    unreadable = find_unreadable(message.headers)
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers) if unreadable is None else (),
        timestamp_ms=message.timestamp,
        unreadable=unreadable,
    )


def _kind_of(task: asyncio.Task[Any]) -> str:
    if not task.done():
        return "TimeoutError"
    error = None if task.cancelled() else task.exception()
    return "CancelledError" if error is None else type(error).__name__


def _as_client(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [ClientTopicPartition(*partition) for partition in partitions]
