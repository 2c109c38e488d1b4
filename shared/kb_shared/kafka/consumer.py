"""The one consumer. Every service that reads Kafka does it through this."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

import structlog
from aiokafka.errors import KafkaError

from kb_shared.kafka.event_loop_lag import watch_event_loop
from kb_shared.kafka.partition_assignment import Work
from kb_shared.kafka.positions import OnLost, accept_loss
from kb_shared.kafka.record import DeadLetters, Handler, TopicPartition
from kb_shared.kafka.retries import pause_s
from kb_shared.kafka.scheduling import Lane
from kb_shared.kafka.session import ConsumerGroupConfig, ConsumerSession
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability.log_limit import LogLimit

AWAY_FOR_S = 60.0

log = structlog.get_logger()


class Consumer:
    """Hands the records of some topics to a handler, each at least once and in order within its place.

    Offsets are committed only when the record and all before it are done with. What becomes of a record that fails
    is said at `Handler.handle`.

    Args:
        handler: takes the effects.
        dead_letters: take what the handler can't use.
        topics: read with equal claim. They must exist: see `topics.ensure_topics`.
        bulk_topics: read with what `topics` leave, and a tenth of the slots at least.
        group_id: members of one group share the partitions.
        connection: to the cluster.
        session_timeout_ms: how long a dead member keeps its partitions; also how long the event loop may be blocked.
        rebalance_timeout_ms: how long a member may take to give its partitions back: 5 s less for running work.
            Default twice the session timeout, at least 10 s.
        fetch_max_wait_ms: how long the broker may wait for records to come.
        leave_group: tell the broker when we stop, so that others take over at once and not after the session timeout.
            Off for Tansu: when a group's leader leaves while another member joins, the group never works again.
        max_in_flight: records handled at once.
        limit: how many of these may be in flight at the moment, asked whenever one could begin; None: always all.
        per_group: of these for one group of an organization. Default three quarters, so that the organization's others
            find a slot. The organization itself may hold seven for each that is still free.
        max_replay: offsets of a partition that a crash may repeat; a record that is tried again for long holds its
            partition up once so many came after it.
        max_held_bytes: keys and values in memory.
        survey_interval_s: how often the lag is counted.
        on_lost: called with a topic of which records were lost before they were read.
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
        max_in_flight: int = 16,
        limit: Callable[[], int] | None = None,
        per_group: int | None = None,
        max_replay: int = 500,
        max_held_bytes: int = 32 * 1024 * 1024,
        survey_interval_s: float = 5.0,
        on_lost: OnLost = accept_loss,
    ) -> None:
        self._work = Work(
            handler=handler,
            dead_letters=dead_letters,
            max_in_flight=max_in_flight,
            limit=limit,
            per_group=per_group or max(1, max_in_flight * 3 // 4),
            max_replay=max_replay,
            max_held_bytes=max_held_bytes,
        )
        self._membership = ConsumerGroupConfig(
            topics=dict.fromkeys(topics, Lane.LIVE) | dict.fromkeys(bulk_topics, Lane.BULK),
            group_id=group_id,
            connection=connection,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms or max(10_000, 2 * session_timeout_ms),
            fetch_max_wait_ms=fetch_max_wait_ms,
            leave_group=leave_group,
            survey_interval_s=survey_interval_s,
            on_lost=on_lost,
        )
        self._session: ConsumerSession | None = None
        self._polled_at: float | None = None
        self._limit = LogLimit()

    @property
    def polled_at(self) -> float | None:
        """When it last asked for records as a member of its group, on the monotonic clock; None if it never did."""
        latest = None if self._session is None else self._session.polled_at
        return self._polled_at if latest is None else latest

    @property
    def ready(self) -> bool:
        """Return whether it has joined the group and fetches records. Without partitions it is ready, too."""
        return self._session is not None and self._session.ready

    def lag(self) -> dict[TopicPartition, int]:
        """Records after the committed offset, for each partition assigned, when they were last counted."""
        return {} if self._session is None else self._session.lag

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set; then give running work a moment, commit, leave the group and return.

        Whatever ends a membership, from an unreachable broker to a client library in disarray, a new one follows.
        """
        watch = asyncio.create_task(watch_event_loop())
        try:
            await self._keep_joining(stop)
        finally:
            watch.cancel()

    async def _keep_joining(self, stop: asyncio.Event) -> None:
        failures = 0
        while not stop.is_set():
            session = self._session = ConsumerSession(self._membership, self._work)
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
            group = self._membership.group_id
            log.warning("consumer.session_failed", group=group, error=type(error).__name__, left_out=left_out)


def joined(consumer: Consumer) -> Callable[[], Awaitable[str | None]]:
    """Make the check that a consumer reads as a member of its group; a rebalance of less than a minute is no reason."""

    async def why_not_ready() -> str | None:
        if consumer.polled_at is None:
            return "it does not read as a member of its consumer groups yet"
        if time.monotonic() - consumer.polled_at < AWAY_FOR_S:
            return None
        return f"it has not read as a member of its consumer groups for {AWAY_FOR_S:g} s"

    return why_not_ready
