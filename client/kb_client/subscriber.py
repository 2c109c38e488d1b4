"""Subscribe to `kb-events`: what became of documents and knowledge bases.

async with EventSubscriber("broker:9092", group_id="upstream-billing") as events:
    async for event in events:
        match event.outcome:
            case DocumentIndexed(document_id=document_id): ...
"""

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

from kb_client.extras import needs_extra
from kb_contracts.cloudevents import Payload, decode
from kb_contracts.errors import Rejected
from kb_contracts.outcomes import KB_EVENTS as TYPES
from kb_contracts.topics import KB_EVENTS

with needs_extra("kafka"):
    from aiokafka import ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    from kb_shared.kafka_connection.clients import consumer_client
    from kb_shared.kafka_connection.connection import KafkaConnection
    from kb_shared.kafka_connection.fetched_batches import UnreadableRecords, find_unreadable

ACKNOWLEDGE_AFTER_S: Final = 1.0
"""Time after which finished events are acknowledged while further ones come."""
NEXT_WITHIN_MS: Final = 200

_log = logging.getLogger("kb_client")


class SubscriptionFailed(KafkaError):  # type: ignore[misc]  # the client library has no types
    """The events can't be read; `str()` says why. Enter again: what was not acknowledged comes again."""

    retriable = True


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event of `kb-events`."""

    event_id: str
    """Id of the event. One that comes again has the same."""
    time: datetime
    outcome: Payload
    """Content: one of the classes in `kb_contracts.outcomes`."""


class EventSubscriber:
    """Yields the events of `kb-events`, each at least once, in the order of its knowledge base.

    An event is acknowledged after the body of the loop has run for it. A process that dies in the body gets the event
    again, and so does the next one after an error or `break` in the body. A process that dies may get events again that
    were finished within the last second: a handler must not mind.

    Args:
        connection: to a cluster: `host:port`, several joined by commas; with TLS or SASL a `KafkaConnection`.
        group_id: names the subscription. Processes with the same one share the events.
        organization_id: only the events of this organization; by default those of all.
        topic_prefix: as the deployment's `KB_KAFKA_TOPIC_PREFIX`.
        start: where a new subscription begins.
        session_timeout_s: time after which the events of a dead process go to another one.
        max_body_s: time that the body may take; after it, another process gets the event.
    Raises:
        UnusableKafkaConnection: on entering: a file of the connection can't be used.
        SubscriptionFailed: on entering and in the loop: Kafka can't be reached, or refuses the request.
    """

    def __init__(
        self,
        connection: str | KafkaConnection,
        *,
        group_id: str,
        organization_id: str | None = None,
        topic_prefix: str = "",
        start: Literal["earliest", "latest"] = "earliest",
        session_timeout_s: float = 30.0,
        max_body_s: float = 300.0,
    ) -> None:
        self._connection = KafkaConnection(connection) if isinstance(connection, str) else connection
        self._topic = topic_prefix + KB_EVENTS.name
        self._group_id = group_id
        self._organization_id = organization_id
        self._start = start
        self._session_timeout_s = session_timeout_s
        self._max_body_s = max_body_s
        self._client: Any = None
        self._finished = _FinishedOffsets()

    async def __aenter__(self) -> Self:
        self._connection.check_files()
        client = consumer_client(
            self._connection,
            group_id=self._group_id,
            enable_auto_commit=False,
            auto_offset_reset=self._start,
            session_timeout_ms=round(self._session_timeout_s * 1000),
            heartbeat_interval_ms=round(self._session_timeout_s * 1000 / 6),
            max_poll_interval_ms=round(self._max_body_s * 1000),
        )
        try:
            await client.start()
            client.subscribe([self._topic], listener=_AcknowledgeBeforeRevocation(self))
        except KafkaError as error:
            await client.stop()
            raise SubscriptionFailed(str(error)) from error
        self._client = client
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Acknowledge what is finished and leave the group."""
        client = self._client
        try:
            await self.acknowledge()
        finally:
            self._client = None
            await client.stop()

    async def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        if self._client is None:
            raise RuntimeError("the subscriber is not connected; use it inside `async with`")
        while True:
            fetched = await self._fetch()
            if not fetched or self._finished.age_s() > ACKNOWLEDGE_AFTER_S:
                await self.acknowledge()
            for partition, records in fetched.items():
                for record in records:
                    unreadable = find_unreadable(record.headers)
                    if unreadable is not None:
                        _pass_over(record, unreadable)
                    elif (event := self._decode(record)) is not None:
                        yield event
                    # Here the body has run.
                    self._finished.add(partition, record.offset if unreadable is None else unreadable.last_offset)

    async def acknowledge(self) -> None:
        """Acknowledge the finished events now; the loop does it by itself."""
        offsets = self._finished.take_all()
        # Another process has what was taken away, and gets its unacknowledged events.
        assigned = self._client.assignment()
        offsets = {partition: offset for partition, offset in offsets.items() if partition in assigned}
        if offsets:
            try:
                await self._client.commit(offsets)
            except KafkaError as error:
                # They come again: to this process after a rebalance, or to another one.
                _log.warning("finished events could not be acknowledged: %s", error)

    async def _fetch(self) -> dict[Any, list[Any]]:
        try:
            # One record, so that a rebalance finds no other one that this process would still hand out.
            fetched: dict[Any, list[Any]] = await self._client.getmany(timeout_ms=NEXT_WITHIN_MS, max_records=1)
        except KafkaError as error:
            raise SubscriptionFailed(str(error)) from error
        return fetched

    def _decode(self, record: Any) -> ReceivedEvent | None:
        try:
            envelope, outcome = decode(record.value, TYPES)
        except Rejected as error:
            # A later version of the services may publish further types.
            _log.info("an event is passed over: %s", error.reason)
            return None
        except Exception as error:  # noqa: BLE001  # a bug, but no event may stop its partition
            _log.error("event %s/%s is passed over: %s", record.partition, record.offset, type(error).__name__)
            return None
        if self._organization_id not in (None, getattr(outcome, "organization_id", None)):
            return None
        return ReceivedEvent(envelope.id, envelope.time, outcome)


def _pass_over(record: Any, unreadable: UnreadableRecords) -> None:
    # They are also in `GET /events`.
    place = f"partition {record.partition} of {record.topic}"
    _log.error("events in %s can't be read and are passed over: %s", place, unreadable.detail)


class _FinishedOffsets:
    """Offsets of finished events that are not acknowledged yet."""

    def __init__(self) -> None:
        self._next: dict[Any, int] = {}
        self._since: float | None = None

    def add(self, partition: Any, offset: int) -> None:
        self._next[partition] = offset + 1
        if self._since is None:
            self._since = time.monotonic()

    def age_s(self) -> float:
        return 0.0 if self._since is None else time.monotonic() - self._since

    def take_all(self) -> dict[Any, int]:
        taken, self._next, self._since = self._next, {}, None
        return taken


class _AcknowledgeBeforeRevocation(ConsumerRebalanceListener):  # type: ignore[misc]  # the client library has no types
    """Acknowledges finished events before their partitions go to another process."""

    def __init__(self, subscriber: EventSubscriber) -> None:
        self._subscriber = subscriber

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            await self._subscriber.acknowledge()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass
