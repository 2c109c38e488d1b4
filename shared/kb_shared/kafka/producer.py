"""The one way to write to Kafka: acknowledged by all in-sync replicas, or an error."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    kafka_errors,
)

from kb_shared.errors import MessageRefused, TransientError
from kb_shared.kafka.headers import Headers, to_wire
from kb_shared.kafka_connection.clients import producer_client
from kb_shared.kafka_connection.connection import KafkaConnection


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]  # the library has no types
    """The record breaks a rule of its topic: one without a key in a compacted topic, for example."""

    errno = 87
    message = "INVALID_RECORD"


# The client library does not know this code, and so would report it as an unknown error, which may pass.
kafka_errors.setdefault(InvalidRecordError.errno, InvalidRecordError)

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


Outcome: TypeAlias = TransientError | MessageRefused | None
"""Why a message was not acknowledged, or None if it was."""


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Producer:
    """Sends messages and waits until they are safe.

    Args:
        connection: to the cluster.
        idempotence: keeps the client's own retries from writing twice or out of order. Off for brokers without it.
        max_request_bytes: the largest message, key and headers included, that is sent at all.
        request_timeout_ms: how long an acknowledgement may take.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        idempotence: bool,
        max_request_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self._connection = connection
        self._options = {
            "acks": "all",
            "enable_idempotence": idempotence,
            "max_request_size": max_request_bytes,
            "request_timeout_ms": request_timeout_ms,
        }
        self._client: Any = None

    async def start(self) -> None:
        """Connect.

        Raises:
            TransientError: no broker answers.
        """
        # Made here because the client library binds to the running loop.
        client = producer_client(self._connection, **self._options)
        try:
            await client.start()
        except KafkaError as error:
            await client.stop()
            raise _as_ours(error) from error
        self._client = client

    async def stop(self) -> None:
        """Wait for what is being sent, then disconnect."""
        if self._client is not None:
            await self._client.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Return once the message is acknowledged.

        Raises:
            TransientError: it is not, and may or may not have been written.
            MessageRefused: it is too large, or breaks a rule of its topic.
        """
        await self.send_all([Message(topic, key, value, headers)])

    async def send_all(self, messages: Sequence[Message]) -> None:
        """Return once every message is acknowledged; messages of one key arrive in the order given.

        Raises:
            TransientError, MessageRefused: as `send`, for the first that failed; the others may have been written.
        """
        for failure in await self.send_each(messages):
            if failure is not None:
                raise failure

    async def send_each(self, messages: Sequence[Message]) -> list[Outcome]:
        """Return for each message, in the order given, why it was not acknowledged, or None if it was.

        What comes after a refused message is sent all the same. Messages of one key arrive in the order given, but one
        can arrive although a transient error has kept back another before it: to restore the order, send both again.
        """
        attempts: list[asyncio.Future[Any]] = []
        for message in messages:
            try:
                attempts.append(await self._hand_over(message))
            except TOO_LARGE as error:
                attempts.append(_failed(error))
            except KafkaError as error:
                # The cluster is away: each of the others would wait as long as this one did.
                attempts += [_failed(error)] * (len(messages) - len(attempts))
                break
        return [_failure_of(outcome) for outcome in await asyncio.gather(*attempts, return_exceptions=True)]

    async def _hand_over(self, message: Message) -> asyncio.Future[Any]:
        """Queue the message; the future is done with its acknowledgement."""
        acknowledgement: asyncio.Future[Any] = await self._client.send(
            message.topic, key=message.key, value=message.value, headers=to_wire(message.headers)
        )
        return acknowledgement


def _failed(error: KafkaError) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def _failure_of(outcome: object) -> Outcome:
    if isinstance(outcome, KafkaError):
        return _as_ours(outcome)
    if isinstance(outcome, BaseException):
        raise outcome
    return None


def _as_ours(error: KafkaError) -> TransientError | MessageRefused:
    # The type alone: the client library's messages may quote what was sent.
    if isinstance(error, TOO_LARGE):
        return MessageRefused(f"the message is too large for Kafka ({type(error).__name__})", reason="too-large")
    if isinstance(error, InvalidRecordError):
        return MessageRefused("the message breaks a rule of its topic", reason="invalid-record")
    return TransientError(f"Kafka did not take the message ({type(error).__name__})")
