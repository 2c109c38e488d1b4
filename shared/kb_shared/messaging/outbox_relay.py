"""Sends the messages of the outbox. Any number of relays share the work by leases on buckets."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic
from uuid import uuid4

import pymongo
import structlog
from bson import ObjectId
from pymongo.errors import PyMongoError

from kb_contracts.cloudevents import CONTENT_TYPE
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import MessageRefused, TransientError
from kb_shared.failpoints import reach
from kb_shared.kafka.headers import Headers
from kb_shared.kafka.producer import DeliveryOutcome, Producer, ProducerMessage
from kb_shared.kafka.record_size import record_bytes
from kb_shared.messaging.unsendable_messages import mark_unsendable
from kb_shared.mongo import leases, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.stored_time import age_s
from kb_shared.observability import tracing
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import OUTBOX_OLDEST_AGE_SECONDS, OUTBOX_PENDING, OUTBOX_SET_ASIDE

_LEASE = timedelta(seconds=15)
_RENEW_S = 5.0
_DEADLINE_S = 9.0
"""Timeout of calls to MongoDB: a lease that can't be renewed in time is given up before another relay takes it."""
_BATCH = 500
_PAUSE_S = 0.05
"""Pause between two polls. Messages of this time are sent together, with as many commands as a single one."""
_FULL_ENOUGH = 10
"""Number of messages in one poll after which there is no pause, because it would save almost nothing."""
_AFTER_FAILURE_S = 10.0
"""Pause after a failure, longer than another relay takes to notice the free buckets."""
_LAST_BATCH_S = 5.0
"""Time for the batch that is being sent when the process stops."""

log = structlog.get_logger()


def headers_of_ours(traceparent: str) -> Headers:
    """Return the headers of the messages that this system creates."""
    return {"content-type": CONTENT_TYPE, tracing.HEADER: traceparent}


def to_kafka(message: outbox.OutboxMessage, topic_prefix: str) -> ProducerMessage:
    """Convert a row of the outbox to the message that is sent."""
    headers = headers_of_ours(message.traceparent) if message.headers is None else message.headers
    return ProducerMessage(topic_prefix + message.topic, message.key, message.value, headers)


def _sent(messages: Sequence[outbox.OutboxMessage], outcomes: Sequence[DeliveryOutcome]) -> list[ObjectId]:
    """Return the ids of messages that are acknowledged, as all earlier ones with the same ordering key are."""
    held_up = set()
    sent = []
    for message, outcome in zip(messages, outcomes, strict=True):
        if isinstance(outcome, TransientError):
            held_up.add(message.ordering)
        elif outcome is None and message.ordering not in held_up:
            sent.append(message.id)
    return sent


class OutboxRelay:
    """Sends messages of the outbox; one per service process."""

    def __init__(
        self, database: Database, producer: Producer, *, topic_prefix: str, signal: WorkSignal | None = None
    ) -> None:
        self._signal = signal or WorkSignal()
        self._pause = PollPause(self._signal, shortest_s=_PAUSE_S)
        self._database = database
        self._producer = producer
        self._topic_prefix = topic_prefix
        self._owner = str(uuid4())
        self._buckets: list[int] = []
        self._able_again_at = 0.0
        self._limit = LogLimit()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop`, then release the buckets so that another relay continues at once."""
        sending, stopping = asyncio.create_task(self._send_until(stop)), asyncio.create_task(self._wake_at(stop))
        working = {sending, asyncio.create_task(self._keep_leases()), asyncio.create_task(self._keep_counting())}
        try:
            await asyncio.wait({*working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            # Without an answer of the brokers a batch takes a minute. Messages that are not marked are sent again.
            await asyncio.wait({sending}, timeout=_LAST_BATCH_S)
            for task in working:
                if task.done():
                    task.result()
        finally:
            for each in (*working, stopping):
                each.cancel()
            await asyncio.gather(*working, stopping, return_exceptions=True)
            await self._release()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._signal.wake()

    async def _send_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            found, poll_took_s = await self._send_some()
            if found < _FULL_ENOUGH and not stop.is_set():
                await self._pause.after_poll(found=found > 0, poll_took_s=poll_took_s)

    async def _send_some(self) -> tuple[int, float]:
        """Send one batch; return the number of its messages, 0 after a failure, and the seconds the poll took."""
        began = monotonic()
        try:
            with pymongo.timeout(_DEADLINE_S):
                messages = (
                    await outbox.find_unsent(self._database, self._buckets, limit=_BATCH) if self._buckets else []
                )
            poll_took_s = monotonic() - began
            if messages:
                await self._send(messages)
        except (TransientError, PyMongoError) as error:
            # Messages that are not marked are sent again; receivers recognize duplicates by id. Until then a
            # relay that can send may take the buckets.
            self._log_failure(error)
            self._able_again_at = monotonic() + _AFTER_FAILURE_S
            await self._release()
            return 0, 0.0
        return len(messages), poll_took_s

    def _log_failure(self, error: TransientError | PyMongoError) -> None:
        # The driver's messages may quote the messages that were sent.
        reason = str(error) if isinstance(error, TransientError) else type(error).__name__
        if (left_out := self._limit.admit(reason)) is not None:
            log.warning("outbox.send_failed", reason=reason, left_out=left_out)

    async def _send(self, messages: Sequence[outbox.OutboxMessage]) -> None:
        outcomes = await self._outcomes(messages)
        await reach("outbox.after_send")
        with pymongo.timeout(_DEADLINE_S):
            for message, outcome in zip(messages, outcomes, strict=True):
                if isinstance(outcome, MessageRefused):
                    size_bytes = record_bytes(to_kafka(message, self._topic_prefix))
                    await mark_unsendable(self._database, message, refusal=outcome, size_bytes=size_bytes)
            await outbox.mark_sent(self._database, _sent(messages, outcomes))
        for outcome in outcomes:
            if isinstance(outcome, TransientError):
                raise outcome

    async def _outcomes(self, messages: Sequence[outbox.OutboxMessage]) -> list[DeliveryOutcome]:
        outcomes = await self._producer.send_each([to_kafka(message, self._topic_prefix) for message in messages])
        if len(messages) == 1:
            return outcomes
        late = set()
        for index, (message, outcome) in enumerate(zip(messages, outcomes, strict=True)):
            if isinstance(outcome, MessageRefused):
                # Brokers refuse whole batches: only a message that is refused alone is itself too large.
                [outcomes[index]] = await self._outcomes([message])
                if outcomes[index] is None:
                    late.add(message.ordering)
            elif outcome is None and message.ordering in late:
                # It was written before an earlier message with the same ordering key.
                [outcomes[index]] = await self._outcomes([message])
        return outcomes

    async def _keep_leases(self) -> None:
        while True:
            if monotonic() >= self._able_again_at:
                try:
                    with pymongo.timeout(_DEADLINE_S):
                        self._buckets = await self._take_buckets()
                except PyMongoError as error:
                    log.warning("outbox.lease_failed", error=type(error).__name__)
                    # Without a renewal another relay may have taken them.
                    self._buckets = []
            await asyncio.sleep(_RENEW_S)

    async def _keep_counting(self) -> None:
        """Count unsent messages, apart from the leases, because a slow count must not stop the sending."""
        while True:
            try:
                OUTBOX_PENDING.set(await outbox.count_unsent(self._database))
                oldest = await outbox.find_oldest_unsent(self._database)
                OUTBOX_OLDEST_AGE_SECONDS.set(0 if oldest is None else age_s(oldest))
                OUTBOX_SET_ASIDE.set(await outbox.count_unsendable(self._database))
            except PyMongoError as error:
                if (left_out := self._limit.admit("count")) is not None:
                    log.warning("outbox.count_failed", error=type(error).__name__, left_out=left_out)
            await asyncio.sleep(_RENEW_S)

    async def _take_buckets(self) -> list[int]:
        buckets = {outbox.build_lease_name(bucket): bucket for bucket in range(outbox.BUCKETS)}
        taken = await leases.take_all(self._database, buckets, owner=self._owner, length=_LEASE)
        if not {buckets[name] for name in taken} <= {*self._buckets}:
            # Messages of a new bucket were announced to its last relay only.
            self._signal.wake()
        return sorted(buckets[name] for name in taken)

    async def _release(self) -> None:
        buckets, self._buckets = self._buckets, []
        try:
            with pymongo.timeout(_DEADLINE_S):
                for bucket in buckets:
                    await leases.release(self._database, outbox.build_lease_name(bucket), owner=self._owner)
        except PyMongoError:
            return  # they expire
