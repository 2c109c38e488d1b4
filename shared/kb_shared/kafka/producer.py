"""Sends messages to Kafka. Each is acknowledged by all in-sync replicas, or fails with an error."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import structlog
from aiokafka.errors import KafkaError, ProducerClosed

from kb_shared.errors import MessageRefused, TransientError
from kb_shared.kafka.client_shutdown import shut_down_client
from kb_shared.kafka.headers import Headers, to_wire
from kb_shared.kafka.retries import pause_s
from kb_shared.kafka.send_errors import REFUSALS, InvalidRecordError, needs_new_client, translate_error
from kb_shared.kafka.send_spans import begin_send_span, end_send_spans, name_parent
from kb_shared.kafka_connection.clients import producer_client
from kb_shared.kafka_connection.connection import Compression, KafkaConnection
from kb_shared.observability import metrics, tracing

OLD_CLIENT_WITHIN_S: Final = 5.0
"""Time for which a client that is replaced may deliver to the partitions that it can write to."""
CLOSE_WITHIN_S: Final = 1.0

log = structlog.get_logger()


_NO_VALUE: Final = object()
"""Null value of a record without a key. Kafka takes such records, the client library refuses to send them."""


def _serialize_value(value: Any) -> Any:
    return None if value is _NO_VALUE else value


DeliveryOutcome: TypeAlias = TransientError | MessageRefused | None
"""Reason why a message was not acknowledged; None if it was."""


@dataclass(frozen=True, slots=True)
class ProducerMessage:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True, eq=False)
class _Delivery:
    """Message whose outcome is not known yet."""

    message: ProducerMessage
    outcome: asyncio.Future[DeliveryOutcome]
    client: Any = None
    """Client to which it was handed over last."""

    @property
    def line(self) -> tuple[str, bytes] | None:
        """Return the topic and the key within which order is kept; None without a key."""
        return None if self.message.key is None else (self.message.topic, self.message.key)

    def set_outcome(self, failure: DeliveryOutcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(failure)


class Producer:
    """Sends messages and waits for their acknowledgements.

    After an unrecoverable error the client is replaced by a new one. Messages without an acknowledgement are sent
    again, in order for each key and before newer messages of that key. Some messages are then written twice.

    Args:
        connection: to the cluster.
        idempotence: prevents duplicates and changes of order by retries of the client. False for brokers without it.
        compression: codec of the batches that get smaller by it.
        max_request_bytes: size limit of a message with key and headers.
        max_batch_bytes: size of the batches of a partition; a larger message is sent alone.
        request_timeout_ms: time limit for the answer of a broker.
        delivery_timeout_s: time limit for an acknowledgement, with all retries.
        stop_timeout_s: time for which `stop` waits for acknowledgements.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        idempotence: bool,
        compression: Compression = "none",
        max_request_bytes: int = 1_048_576,
        max_batch_bytes: int = 16_384,
        request_timeout_ms: int = 30_000,
        delivery_timeout_s: float = 60.0,
        stop_timeout_s: float = 5.0,
    ) -> None:
        self._connection = connection
        self._options = {
            "acks": "all",
            "enable_idempotence": idempotence,
            "compression_type": None if compression == "none" else compression,
            "max_request_size": max_request_bytes,
            "max_batch_size": max_batch_bytes,
            "value_serializer": _serialize_value,
            "request_timeout_ms": request_timeout_ms,
        }
        self._start_timeout_s = request_timeout_ms / 1000
        self._delivery_timeout_s = delivery_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._client: Any = None
        self._client_changed = asyncio.Event()
        self._replacement: asyncio.Task[None] | None = None
        self._failures = 0
        self._unacknowledged: dict[_Delivery, None] = {}
        """Deliveries in the order in which they were first handed over."""
        self._sending_again: dict[tuple[str, bytes] | None, asyncio.Task[None]] = {}
        self._stopped = False

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            TransientError: no broker answers.
        """
        self._client = await self._connect()
        self._stopped = False

    async def stop(self) -> None:
        """Wait for acknowledgements for a short time, then disconnect. Messages without one fail."""
        if outcomes := [delivery.outcome for delivery in self._unacknowledged]:
            await asyncio.wait(outcomes, timeout=self._stop_timeout_s)
        self._stopped = True
        self._client_changed.set()
        tasks = [*self._sending_again.values(), *([self._replacement] if self._replacement else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for delivery in self._unacknowledged:
            delivery.set_outcome(translate_error(ProducerClosed()))
        client, self._client = self._client, None
        if client is not None:
            await shut_down_client(client, within_s=CLOSE_WITHIN_S)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def send(self, topic: str, key: bytes | None, *, value: bytes | None, headers: Headers = ()) -> None:
        """Return once the message is acknowledged.

        Raises:
            TransientError: it is not acknowledged, and may or may not be written.
            MessageRefused: it is too large, or breaks a rule of its topic.
        """
        await self.send_all([ProducerMessage(topic, key, value, headers)])

    async def send_all(self, messages: Sequence[ProducerMessage]) -> None:
        """Return once every message is acknowledged; messages of one key arrive in the order given.

        Raises:
            TransientError, MessageRefused: as `send`, for the first that failed; the others may have been written.
        """
        for failure in await self.send_each(messages):
            if failure is not None:
                raise failure

    async def send_each(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        """Return an outcome for each message, in the order given.

        Messages after a refused one are sent anyway. Messages of one key are written in the order given. But a message
        can be written although an earlier one failed with a transient error: to restore the order, send both again.
        """
        if not tracing.is_recording():
            return await self._deliver(messages)
        begun = [begin_send_span(message.topic, message.headers) for message in messages]
        outcomes: list[DeliveryOutcome] = [None] * len(messages)
        try:
            outcomes = await self._deliver(
                [
                    replace(message, headers=name_parent(message.headers, span))
                    for message, span in zip(messages, begun, strict=True)
                ]
            )
        finally:
            end_send_spans(begun, outcomes)
        return outcomes

    async def _deliver(self, messages: Sequence[ProducerMessage]) -> list[DeliveryOutcome]:
        loop = asyncio.get_running_loop()
        deliveries = [_Delivery(message, loop.create_future()) for message in messages]
        try:
            async with asyncio.timeout(self._delivery_timeout_s):
                await self._hand_over_all(deliveries)
                if outcomes := [delivery.outcome for delivery in deliveries if not delivery.outcome.done()]:
                    await asyncio.wait(outcomes)
        except TimeoutError:
            late = TransientError(f"Kafka did not acknowledge the message within {self._delivery_timeout_s:g} s")
            for delivery in deliveries:
                delivery.set_outcome(late)
            self._replace_if_dead()
        finally:
            for delivery in deliveries:
                self._unacknowledged.pop(delivery, None)
        return [delivery.outcome.result() for delivery in deliveries]

    async def _hand_over_all(self, deliveries: Sequence[_Delivery]) -> None:
        for delivery in deliveries:
            try:
                await self._hand_over(delivery)
            except REFUSALS as error:
                delivery.set_outcome(translate_error(error))
            except KafkaError as error:
                # The cluster is away: each other message would wait as long as this one did.
                for other in deliveries:
                    if other.client is None:
                        other.set_outcome(translate_error(error))
                return

    async def _hand_over(self, delivery: _Delivery) -> None:
        """Queue the message in a client, and in the next one if this one must be replaced.

        Raises:
            KafkaError: it was not queued.
        """
        while True:
            client = await self._usable_client(delivery)
            try:
                await self._queue(delivery, client)
            except REFUSALS:
                raise
            except KafkaError as error:
                if client is self._client and not needs_new_client(error):
                    raise
                self._replace(client, error)
            else:
                return

    async def _usable_client(self, delivery: _Delivery) -> Any:
        """Wait for a client to which all earlier messages of the same key were handed over."""
        while True:
            if self._stopped:
                raise ProducerClosed
            if self._client is None:
                self._client_changed.clear()
                await self._client_changed.wait()
            elif delivery.line is not None and (earlier := self._sending_again.get(delivery.line)) is not None:
                await asyncio.wait([earlier])
            else:
                return self._client

    async def _queue(self, delivery: _Delivery, client: Any) -> None:
        message = delivery.message
        value = _NO_VALUE if message.key is None and message.value is None else message.value
        try:
            acknowledgement: asyncio.Future[Any] = await client.send(
                message.topic, key=message.key, value=value, headers=to_wire(message.headers)
            )
        except (AssertionError, TypeError, ValueError) as error:
            # The client library would refuse the same message for ever.
            raise InvalidRecordError from error
        delivery.client = client
        self._unacknowledged.setdefault(delivery)
        acknowledgement.add_done_callback(partial(self._on_acknowledgement, delivery, client))

    def _on_acknowledgement(self, delivery: _Delivery, client: Any, acknowledgement: asyncio.Future[Any]) -> None:
        error = acknowledgement.exception()
        if delivery.client is not client or delivery.outcome.done():
            return
        if error is None:
            self._failures = 0
            delivery.set_outcome(None)
        elif not isinstance(error, KafkaError):
            delivery.outcome.set_exception(error)
        elif isinstance(error, REFUSALS) or (client is self._client and not needs_new_client(error)):
            delivery.set_outcome(translate_error(error))
        else:
            self._replace(client, error)

    def _replace(self, client: Any, error: KafkaError) -> None:
        """Start to replace this client, unless that has begun already."""
        if client is self._client and not self._stopped:
            self._client = None
            self._replacement = asyncio.create_task(self._take_over_from(client, error))

    def _replace_if_dead(self) -> None:
        client = self._client
        if client is None:
            return
        tasks = (client._sender.sender_task, client.client._sync_task)  # noqa: SLF001  # public nowhere
        if any(task is not None and task.done() for task in tasks):
            self._replace(client, KafkaError("a task of the client has ended"))

    async def _take_over_from(self, old: Any, error: KafkaError) -> None:
        # Closed before anything is sent again. Otherwise an old copy could be written after a newer message of its key.
        await shut_down_client(old, within_s=OLD_CLIENT_WITHIN_S)
        client = await self._connect_with_retries()
        again = [delivery for delivery in self._unacknowledged if not delivery.outcome.done()]
        log.warning("producer.replaced", error=type(error).__name__, messages_sent_again=len(again))
        metrics.PRODUCER_REPLACEMENTS.labels(reason=type(error).__name__).inc()
        self._client = client
        self._send_again(again, client)
        self._client_changed.set()

    async def _connect_with_retries(self) -> Any:
        while True:
            self._failures += 1
            await asyncio.sleep(pause_s(self._failures))
            try:
                return await self._connect()
            except TransientError as error:
                log.warning("producer.replacement_failed", reason=str(error))
            except Exception as error:  # noqa: BLE001  # without a client nothing can be sent
                log.warning("producer.replacement_failed", reason=type(error).__name__)

    def _send_again(self, deliveries: Iterable[_Delivery], client: Any) -> None:
        """Hand over each key in its own task, so that a partition without a leader does not delay the others."""
        lines: dict[tuple[str, bytes] | None, list[_Delivery]] = defaultdict(list)
        for delivery in deliveries:
            lines[delivery.line].append(delivery)
        self._sending_again = {
            line: asyncio.create_task(self._send_line_again(line, of_line, client=client))
            for line, of_line in lines.items()
        }

    async def _send_line_again(
        self, line: tuple[str, bytes] | None, deliveries: Sequence[_Delivery], *, client: Any
    ) -> None:
        try:
            for delivery in deliveries:
                if delivery.outcome.done():
                    continue
                if client is not self._client:
                    return  # the next client sends the rest
                try:
                    await self._queue(delivery, client)
                except KafkaError as error:
                    if client is self._client and not needs_new_client(error):
                        delivery.set_outcome(translate_error(error))
                    else:
                        self._replace(client, error)
        finally:
            if self._sending_again.get(line) is asyncio.current_task():
                del self._sending_again[line]

    async def _connect(self) -> Any:
        # Created here because the client library binds to the running event loop.
        client = producer_client(self._connection, **self._options)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await client.start()
        except (KafkaError, TimeoutError) as error:
            await shut_down_client(client, within_s=CLOSE_WITHIN_S)
            raise TransientError(
                f"Kafka at {self._connection.bootstrap_servers} does not answer ({type(error).__name__})"
            ) from error
        except asyncio.CancelledError:
            await shut_down_client(client, within_s=0)
            raise
        return client
