"""Handles the records of one partition assignment.

Each assignment has its own object, which is closed when the partitions are revoked. Work that finishes late finishes
in a closed assignment, so an old assignment can't change a new one.
"""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from kb_contracts.topics import TOPICS
from kb_shared import failpoints
from kb_shared.kafka.attempts import Attempts, InFlightRecord, TryAgain, name_unreadable
from kb_shared.kafka.backpressure import Backpressure
from kb_shared.kafka.offsets import OffsetLedger
from kb_shared.kafka.record import DeadLetters, Handler, OrderingKey, Record, TopicPartition
from kb_shared.kafka.scheduling import ONE_AT_A_TIME, BundleLimits, Lane, Scheduler

COMMIT_INTERVAL_S = 0.5
CANCEL_GRACE_S = 2.0
RECORD_OVERHEAD_BYTES: Final = 1_000
"""Memory that a record takes in addition to its bytes: many small records fill it, too."""
DEAD_LETTER_SLOTS: Final = 16
DEAD_LETTER_BUNDLES: Final = BundleLimits(items=100, size_bytes=1024 * 1024)
"""Dead letters of one ordering key that are published at once, in any order."""
LONGEST_RETENTION_S: Final = max(topic.retention for topic in TOPICS).total_seconds()

log = structlog.get_logger()

Commit = Callable[[Mapping[TopicPartition, int]], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class RecordWork:
    """Handler of records, with its limits."""

    handler: Handler
    dead_letters: DeadLetters
    max_in_flight: int
    per_group: int
    max_replay: int
    max_held_bytes: int
    limit: Callable[[], int] | None = None
    """Number of bundles that may be in flight now; None: always `max_in_flight`."""
    bundles: BundleLimits = ONE_AT_A_TIME


@dataclass(slots=True)
class _Bundle:
    """Records of one ordering key that share a slot."""

    scheduler: Scheduler[InFlightRecord]
    ordering_key: OrderingKey
    running: int
    unfinished: list[InFlightRecord] = field(default_factory=list)
    """Records that are tried again."""
    pause_s: float = 0.0
    """Longest pause of these."""


def _estimate_written_at(record: Record) -> float:
    """Return the Unix time at which a record was written: now, if the time that its producer has set can't be right.

    That may be no time at all, seconds instead of milliseconds, or a clock that is wrong.
    """
    now = time.time()
    written_at = record.timestamp_ms / 1000
    return written_at if now - LONGEST_RETENTION_S <= written_at <= now else now


class PartitionAssignment:
    """Schedules records, calls the handler, and commits the offsets that are safe.

    Args:
        work: handler and limits.
        lanes: assigned partitions, each with the lane of its topic.
        commit: commits offsets, returns whether it succeeded, and never raises.
        on_progress: called after each try of a record, so that more records may be fetched.
        on_failure: called with an error of this class, never with one of a handler.
    """

    def __init__(
        self,
        work: RecordWork,
        lanes: Mapping[TopicPartition, Lane],
        *,
        commit: Commit,
        on_progress: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.lanes = dict(lanes)
        self.ledger = OffsetLedger()
        self._handler = work.handler
        self._attempts = Attempts(work.handler, work.dead_letters)
        self._scheduler = Scheduler[InFlightRecord](
            max_in_flight=work.max_in_flight, per_group=work.per_group, limit=work.limit, bundles=work.bundles
        )
        # Beside the handler's slots: a flood of records that can't be used must not use up those.
        self._dead_letters = Scheduler[InFlightRecord](
            max_in_flight=DEAD_LETTER_SLOTS, per_group=DEAD_LETTER_SLOTS, bundles=DEAD_LETTER_BUNDLES
        )
        self._backpressure = Backpressure(
            max_in_flight=work.max_in_flight, max_replay=work.max_replay, max_held_bytes=work.max_held_bytes
        )
        self._commit = commit
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._held_bytes = 0
        self._running: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._commit_lock = asyncio.Lock()
        # Records must not inherit the log context of the record whose end started them.
        self._context = contextvars.copy_context()
        self._closing: asyncio.Task[None] | None = None
        self._committer = asyncio.create_task(self._commit_regularly())
        # If it fails, nothing would be committed any more, and nothing else would show it.
        self._committer.add_done_callback(self._forget_task)

    @property
    def open(self) -> bool:
        """Return whether records may still be admitted."""
        return self._closing is None

    def admit(self, records: Iterable[Record]) -> None:
        """Add records, those of each partition in order."""
        now = time.monotonic()
        for record in records:
            partition = record.topic_partition
            unreadable = record.unreadable
            if unreadable and self.ledger.has_covered(partition, record.offset, unreadable.last_offset):
                # A fetch that began among these offsets found the same bytes again.
                continue
            ordering_key = self._ordering_key(record)
            tracker = self.ledger.begin(partition, record.offset, at=now, written_at=_estimate_written_at(record))
            size_bytes = record.size_bytes
            item = InFlightRecord(record, ordering_key, tracker, held_bytes=size_bytes + RECORD_OVERHEAD_BYTES)
            self._held_bytes += item.held_bytes
            scheduler = self._scheduler
            if unreadable is not None:
                # With its dead letter all its offsets are done with.
                tracker.cover(record.offset, unreadable.last_offset)
                item.dead_letter_reason = name_unreadable(unreadable.detail)
                scheduler = self._dead_letters
            scheduler.add(item, ordering_key, self.lanes[partition], size_bytes=size_bytes)
        self._start_ready_records()

    def find_partitions_to_pause(self) -> frozenset[TopicPartition]:
        """Return the partitions from which no more records should be fetched now."""
        return self._backpressure.find_partitions_to_pause(
            self.lanes,
            active={lane: self._scheduler.count_active(lane) for lane in Lane},
            replay_windows=self.ledger.replay_windows(),
            held_bytes=self._held_bytes,
        )

    async def close(self, *, drain_s: float) -> None:
        """Start no more records, wait up to `drain_s` for running ones, commit, then cancel the rest.

        A rebalance and the end of the process may both call this. The first `drain_s` counts, and both wait.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(drain_s))
        await asyncio.shield(self._closing)

    def _ordering_key(self, record: Record) -> OrderingKey:
        unplaced = OrderingKey(organization_id="unplaced", group="", key=f"{record.topic}/{record.partition}")
        if record.unreadable is not None:
            return unplaced
        try:
            return self._handler.ordering_key(record)
        except Exception:
            # A bug, but one record must not stop the others: `handle` decides about it.
            log.exception(
                "record.placement_failed", topic=record.topic, partition=record.partition, offset=record.offset
            )
            return unplaced

    def _start_ready_records(self) -> None:
        for scheduler in (self._scheduler, self._dead_letters):
            while self.open and (items := scheduler.start_next()):
                bundle = _Bundle(scheduler, items[0].ordering_key, running=len(items))
                for item in items:
                    task = asyncio.create_task(self._run(item, bundle), context=self._context.copy())
                    self._running.add(task)
                    task.add_done_callback(self._forget_task)

    async def _run(self, item: InFlightRecord, bundle: _Bundle) -> None:
        match await self._attempts.attempt(item):
            case TryAgain(pause_s=pause_s):
                self._try_again(item, bundle, pause_s=pause_s)
            case None:
                item.tracker.finish(item.record.offset)
                self._held_bytes -= item.held_bytes
        bundle.running -= 1
        if not bundle.running:
            self._release_slot(bundle)
        self._start_ready_records()
        self._on_progress()

    def _try_again(self, item: InFlightRecord, bundle: _Bundle, *, pause_s: float) -> None:
        if item.dead_letter_reason is not None and bundle.scheduler is self._scheduler:
            # Unfinished until it is stored, but it delays no later record of its ordering key.
            self._dead_letters.add(item, item.ordering_key, size_bytes=item.record.size_bytes)
        else:
            bundle.unfinished.append(item)
            bundle.pause_s = max(bundle.pause_s, pause_s)

    def _release_slot(self, bundle: _Bundle) -> None:
        if bundle.unfinished:
            bundle.scheduler.suspend(bundle.ordering_key, bundle.unfinished)
            self._wake_later(bundle)
        else:
            bundle.scheduler.finish(bundle.ordering_key)

    def _wake_later(self, bundle: _Bundle) -> None:
        def wake() -> None:
            self._timers.discard(timer)
            bundle.scheduler.wake(bundle.ordering_key)
            self._start_ready_records()

        timer = asyncio.get_running_loop().call_later(bundle.pause_s, wake)
        self._timers.add(timer)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            await self._commit_safe_offsets()

    async def _commit_safe_offsets(self) -> None:
        async with self._commit_lock:
            offsets = self.ledger.committable()
            if not offsets:
                return
            await failpoints.reach("consumer.before_commit")
            if await self._commit(offsets):
                self.ledger.mark_committed(offsets)
            await failpoints.reach("consumer.after_commit")

    async def _close(self, drain_s: float) -> None:
        for timer in self._timers:
            timer.cancel()
        # Before the last commit: a commit that is retried must not arrive after it, or in another assignment.
        await self._cancel([self._committer])
        if self._running:
            await asyncio.wait(self._running, timeout=drain_s)
        await self._commit_safe_offsets()
        late = set(self._running)
        await self._cancel(late)
        log.info("assignment.ended", partitions=len(self.lanes), cancelled=len(late))

    @staticmethod
    async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
        pending = {task for task in tasks if task.cancel()}
        if pending:
            # Bounded: a handler that ignores its cancellation goes on in the closed assignment, where it does no harm.
            await asyncio.wait(pending, timeout=CANCEL_GRACE_S)
