"""Consumes Kafka topics. Every service that reads Kafka uses this consumer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final
from uuid import UUID

import structlog
from aiokafka.errors import KafkaError

from kb_shared.kafka.event_loop_lag import watch_event_loop
from kb_shared.kafka.partition_assignment import RecordWork
from kb_shared.kafka.positions import OnLost, accept_loss
from kb_shared.kafka.record import DeadLetters, Handler, TopicPartition
from kb_shared.kafka.retries import pause_s
from kb_shared.kafka.scheduling import ONE_AT_A_TIME, BundleLimits, Lane
from kb_shared.kafka.session import ConsumerGroupConfig, ConsumerSession
from kb_shared.kafka_connection.clients import UNREADABLE_TRIES
from kb_shared.kafka_connection.codecs import find_unreadable_codecs
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability import metrics
from kb_shared.observability.log_limit import LogLimit

AWAY_FOR_S = 60.0
MAX_REPLAY: Final = 500
"""Number of records of a partition that are read ahead of the first unfinished one."""

log = structlog.get_logger()


class Consumer:
    """Hands the records of topics to a handler, each at least once, in order for each ordering key.

    An offset is committed only when its record and all records before it are finished. `Handler.handle` says what
    happens to a record that fails.

    Args:
        handler: handles the records.
        dead_letters: publishes the records that can't be handled.
        topics: on the live lane. They must exist: see `topics.ensure_topics`.
        bulk_topics: on the bulk lane, which gets the slots that `topics` leave, and at least a tenth.
        group_id: consumer group, whose members share the partitions.
        connection: to the cluster.
        session_timeout_ms: how long a dead member keeps its partitions; also how long the event loop may be blocked.
        rebalance_timeout_ms: how long a member may take to give its partitions back: 5 s less for running work.
            Default twice the session timeout, at least 10 s.
        fetch_max_wait_ms: how long the broker may wait for records to come.
        leave_group: leave the group at the end, so that others take over at once and not after the session timeout.
            Off for Tansu: when a group's leader leaves while another member joins, the group never works again.
        unreadable_tries: fetches of records whose checksum is wrong before they go to the dead letters.
        max_in_flight: records, or bundles of them, handled at once.
        limit: returns how many of these may be in flight now; called before each start. None: always all.
        per_group: of these for one group of an organization. Default three quarters, so that the other groups find a
            slot. The organization itself may hold seven slots for each free one.
        max_replay: offsets of a partition that a crash may repeat. A record that is retried for long stops its
            partition after so many later records. What comes after so many records of one ordering key waits for them.
        max_held_bytes: records in memory.
        bundles: how many records of an ordering key are handled at once, in one slot: for a handler that needs no order
            and shares the work. Default one.
        position_check_interval_s: seconds between two counts of the lag.
        on_lost: called with a topic that has lost records before they were read.
    """

    def __init__(
        self,
        handler: Handler,
        dead_letters: DeadLetters,
        *,
        topics: Collection[str],
        group_id: str,
        connection: KafkaConnection,
        bulk_topics: Collection[str] = (),
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int | None = None,
        fetch_max_wait_ms: int = 500,
        leave_group: bool = True,
        unreadable_tries: int = UNREADABLE_TRIES,
        max_in_flight: int = 16,
        limit: Callable[[], int] | None = None,
        per_group: int | None = None,
        max_replay: int = MAX_REPLAY,
        max_held_bytes: int = 32 * 1024 * 1024,
        bundles: BundleLimits = ONE_AT_A_TIME,
        position_check_interval_s: float = 10.0,
        on_lost: OnLost = accept_loss,
    ) -> None:
        self._work = RecordWork(
            handler=handler,
            dead_letters=dead_letters,
            max_in_flight=max_in_flight,
            limit=limit,
            per_group=per_group or max(1, max_in_flight * 3 // 4),
            max_replay=max_replay,
            max_held_bytes=max_held_bytes,
            bundles=bundles,
        )
        self._config = ConsumerGroupConfig(
            topics=dict.fromkeys(topics, Lane.LIVE) | dict.fromkeys(bulk_topics, Lane.BULK),
            group_id=group_id,
            connection=connection,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms or max(10_000, 2 * session_timeout_ms),
            fetch_max_wait_ms=fetch_max_wait_ms,
            leave_group=leave_group,
            unreadable_tries=unreadable_tries,
            position_check_interval_s=position_check_interval_s,
            on_lost=on_lost,
        )
        self._session: ConsumerSession | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._polled_at: float | None = None
        self._limit = LogLimit()

    @property
    def polled_at(self) -> float | None:
        """Return the monotonic time of the last poll as a member of the group; None before the first."""
        latest = None if self._session is None else self._session.polled_at
        return self._polled_at if latest is None else latest

    @property
    def ready(self) -> bool:
        """Return whether it has joined the group and polls, with or without partitions."""
        return self._session is not None and self._session.ready

    def lag(self) -> dict[TopicPartition, int]:
        """Return the Kafka lag in records of each assigned partition, as last counted."""
        return {} if self._session is None else self._session.lag

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set; then give running work a moment, commit, leave the group and return.

        Any error that ends a session, such as an unreachable broker, is followed by a new session.
        """
        watch = asyncio.create_task(watch_event_loop())
        began = time.monotonic()
        poll_age = metrics.CONSUMER_LAST_POLL_AGE_SECONDS.labels(group=self._config.group_id)
        # Computed at each scrape: no part of the consumer has to run for it to grow.
        poll_age.set_function(lambda: time.monotonic() - (began if self.polled_at is None else self.polled_at))
        try:
            await self._keep_joining(stop)
        finally:
            watch.cancel()
            metrics.CONSUMER_LAST_POLL_AGE_SECONDS.remove_by_labels({"group": self._config.group_id})

    async def _keep_joining(self, stop: asyncio.Event) -> None:
        failures = 0
        while not stop.is_set():
            session = self._session = ConsumerSession(self._config, self._work, topic_ids=self._topic_ids)
            try:
                await session.run(stop)
            except (KafkaError, OSError) as error:
                failures = 1 if session.was_assigned else failures + 1
                self._warn(error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s(failures)):
                        await stop.wait()
            finally:
                self._polled_at = self.polled_at
                self._session = None

    def _warn(self, error: Exception) -> None:
        if (left_out := self._limit.admit(type(error).__name__)) is not None:
            group = self._config.group_id
            log.warning("consumer.session_failed", group=group, error=type(error).__name__, left_out=left_out)


def create_membership_check(consumer: Consumer) -> Callable[[], Awaitable[str | None]]:
    """Create the readiness check of a consumer: it can read all codecs, and polls as a member of its group.

    A rebalance of less than a minute does not make it unready.
    """
    unreadable = ", ".join(find_unreadable_codecs())

    async def why_not_ready() -> str | None:
        if unreadable:
            return f"it can't read records compressed with {unreadable}: install kb-shared with its extra `kafka`"
        if consumer.polled_at is None:
            return "it does not read as a member of its consumer groups yet"
        if time.monotonic() - consumer.polled_at < AWAY_FOR_S:
            return None
        return f"it has not read as a member of its consumer groups for {AWAY_FOR_S:g} s"

    return why_not_ready
