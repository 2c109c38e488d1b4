"""Publish document events to Kafka, as an upstream document service does.

async with EventPublisher("broker:9092", source="/my/service") as events:
    await events.publish(OcrCompleted(organization_id="acme", document_id="d1", revision=1, ...))
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from kb_client.extras import needs_extra
from kb_contracts.cloudevents import CONTENT_TYPE, MAX_EVENT_BYTES, Payload, encode
from kb_contracts.documents import key_of
from kb_contracts.topics import DOCUMENT_EVENTS

with needs_extra("kafka"):
    from aiokafka.errors import KafkaError

    from kb_shared.errors import MessageRefused, TransientError
    from kb_shared.kafka.producer import Producer, ProducerMessage
    from kb_shared.kafka_connection.connection import Compression, KafkaConnection
    from kb_shared.observability.tracing import HEADER

MAX_REQUEST_BYTES: Final = MAX_EVENT_BYTES + 10_000
# The client library's 16 KB are less than one event with its text: each would be a request of its own.
MAX_BATCH_BYTES: Final = 256 * 1024
AT_ONCE_BYTES: Final = 16 * 1024 * 1024
"""Number of bytes that `publish_all` hands to the producer at once, which has a minute to deliver it."""


class EventTooLarge(ValueError):
    """Store the text through kb-api first and send its `text_ref`."""


class EventRefused(Exception):
    """Kafka takes this event neither now nor later; `str()` says why. It was not written."""

    def __init__(self, event: Payload, refusal: MessageRefused) -> None:
        super().__init__(f"{event.TYPE} of {key_of(event).decode()}: {refusal}")
        self.event = event
        self.reason = refusal.reason
        """`too-large`: above the `max.message.bytes` of the topic; `invalid-record`: against a rule of the topic."""


class PublishingFailed(KafkaError):  # type: ignore[misc]  # the client library has no types
    """Kafka did not acknowledge an event; `str()` says why. It may or may not have been written: publish it again.

    On entering a publisher: no broker answers, and nothing was written. A `KafkaError`, because the publisher used to
    raise those.
    """

    retriable = True


class EventPublisher:
    """Publishes events and waits until all in-sync replicas have them.

    A Kafka client that met an error it can't recover from is replaced, and what it did not deliver is sent again.

    Args:
        connection: to a cluster: `host:port`, several joined by commas; with TLS or SASL a `KafkaConnection`.
        source: names your service, as CloudEvents has it: `/billing/invoices`, say.
        topic_prefix: as the deployment's `KB_KAFKA_TOPIC_PREFIX`.
        idempotence: off only for a broker that lacks it.
        compression: codec of the batches: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    Raises:
        UnusableKafkaConnection: on entering: a file of the connection can't be used.
        PublishingFailed: on entering: no broker answers; enter again.
    """

    def __init__(
        self,
        connection: str | KafkaConnection,
        *,
        source: str,
        topic_prefix: str = "",
        idempotence: bool = True,
        compression: Compression = "none",
    ) -> None:
        self._connection = KafkaConnection(connection) if isinstance(connection, str) else connection
        self._idempotence = idempotence
        self._compression: Compression = compression
        self._source = source
        self._topic = topic_prefix + DOCUMENT_EVENTS.name
        self._producer: Producer | None = None

    async def __aenter__(self) -> Self:
        self._connection.check_files()
        producer = Producer(
            self._connection,
            idempotence=self._idempotence,
            compression=self._compression,
            max_request_bytes=MAX_REQUEST_BYTES,
            max_batch_bytes=MAX_BATCH_BYTES,
        )
        try:
            await producer.start()
        except TransientError as error:
            raise PublishingFailed(str(error)) from error
        self._producer = producer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait at most ten seconds for other tasks that are still publishing; after that their events fail."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def publish(self, event: Payload, *, time: datetime | None = None, traceparent: str | None = None) -> None:
        """Return once the event is safe, within a minute or so. Publishing it again is harmless.

        Args:
            time: when it happened; now by default.
            traceparent: W3C header of the span it happens in: its trace then goes on through jobs, logs and outcomes.
        Raises:
            EventTooLarge: nothing was sent.
            EventRefused: it was not written, and publishing it again changes nothing.
            PublishingFailed: it may or may not have been written; publish it again.
        """
        await self._publish([event], time, traceparent=traceparent)

    async def publish_all(self, events: Sequence[Payload], *, traceparent: str | None = None) -> None:
        """Publish many events, in few requests; return once all are safe.

        Raises:
            EventTooLarge: one of them is; nothing was sent.
            EventRefused: its `event` was not written; any of the others may or may not have been: publish them again.
            PublishingFailed: any of them may or may not have been written; publish all again.
        """
        await self._publish(events, None, traceparent=traceparent)

    async def _publish(self, events: Sequence[Payload], time: datetime | None, *, traceparent: str | None) -> None:
        if self._producer is None:
            raise RuntimeError("the publisher is not connected; use it inside `async with`")
        messages = [self._message(event, time, traceparent=traceparent) for event in events]
        for part in _parts(messages):
            outcomes = await self._producer.send_each(messages[part])
            for event, outcome in zip(events[part], outcomes, strict=True):
                if isinstance(outcome, MessageRefused):
                    raise EventRefused(event, outcome) from outcome
                if outcome is not None:
                    raise PublishingFailed(str(outcome)) from outcome

    def _message(self, event: Payload, time: datetime | None, *, traceparent: str | None) -> ProducerMessage:
        value = encode(event, source=self._source, time=time)
        if len(value) > MAX_EVENT_BYTES:
            raise EventTooLarge(f"{len(value)} bytes; at most {MAX_EVENT_BYTES}")
        headers = {"content-type": CONTENT_TYPE}
        if traceparent is not None:
            headers[HEADER] = traceparent
        return ProducerMessage(self._topic, key_of(event), value, headers)


def _parts(messages: Sequence[ProducerMessage]) -> Iterator[slice]:
    """Divide them, in their order, into parts of at most `AT_ONCE_BYTES`."""
    start = size_bytes = 0
    for index, message in enumerate(messages):
        size_bytes += len(message.value or b"")
        if size_bytes > AT_ONCE_BYTES and index > start:
            yield slice(start, index)
            start, size_bytes = index, len(message.value or b"")
    if start < len(messages):
        yield slice(start, len(messages))
