"""Publish document events to Kafka, as an upstream document service does.

async with EventPublisher("broker:9092", source="/my/service") as events:
    await events.publish(OcrCompleted(organization_id="acme", document_id="d1", revision=1, ...))
"""

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from kb_shared.contracts.cloudevents import CONTENT_TYPE, MAX_EVENT_BYTES, Payload, encode
from kb_shared.contracts.documents import key_of
from kb_shared.contracts.topics import DOCUMENT_EVENTS
from kb_shared.kafka_connection.clients import producer_client
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.tracing import HEADER


class EventTooLarge(ValueError):
    """Store the text through kb-api first and send its `text_ref`."""


class EventPublisher:
    """Publishes events and waits until all in-sync replicas have them.

    Args:
        connection: to a cluster: `host:port`, several joined by commas; with TLS or SASL a `KafkaConnection`.
        source: names your service, as CloudEvents has it: `/billing/invoices`, say.
        topic_prefix: as the deployment's `KB_KAFKA_TOPIC_PREFIX`.
        idempotence: off only for a broker that lacks it.
    Raises:
        UnusableKafkaConnection: on entering: a file of the connection can't be used.
    """

    def __init__(
        self, connection: str | KafkaConnection, *, source: str, topic_prefix: str = "", idempotence: bool = True
    ) -> None:
        self._connection = KafkaConnection(connection) if isinstance(connection, str) else connection
        self._options = {
            "acks": "all",
            "enable_idempotence": idempotence,
            "max_request_size": MAX_EVENT_BYTES + 10_000,
            # The client's 16 KB are less than one event with its text: each would be a request of its own.
            "max_batch_size": 256 * 1024,
        }
        self._source = source
        self._topic = topic_prefix + DOCUMENT_EVENTS.name
        self._client: Any = None

    async def __aenter__(self) -> Self:
        self._connection.check_files()
        self._client = producer_client(self._connection, **self._options)
        await self._client.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.stop()

    async def publish(self, event: Payload, *, time: datetime | None = None, traceparent: str | None = None) -> None:
        """Return once the event is safe. Publishing it again is harmless.

        Args:
            time: when it happened; now by default.
            traceparent: W3C header of the span it happens in: its trace then goes on through jobs, logs and outcomes.
        Raises:
            EventTooLarge: nothing was sent.
            aiokafka.errors.KafkaError: it may or may not have been written; publish it again.
        """
        await (await self._hand_over(event, time, traceparent))

    async def publish_all(self, events: Sequence[Payload], *, traceparent: str | None = None) -> None:
        """As `publish`, for many at once."""
        for acknowledgement in [await self._hand_over(event, None, traceparent) for event in events]:
            await acknowledgement

    async def _hand_over(self, event: Payload, time: datetime | None, traceparent: str | None) -> Any:
        value = encode(event, source=self._source, time=time)
        if len(value) > MAX_EVENT_BYTES:
            raise EventTooLarge(f"{len(value)} bytes; at most {MAX_EVENT_BYTES}")
        headers = [("content-type", CONTENT_TYPE.encode())]
        if traceparent is not None:
            headers.append((HEADER, traceparent.encode()))
        return await self._client.send(self._topic, key=key_of(event), value=value, headers=headers)
