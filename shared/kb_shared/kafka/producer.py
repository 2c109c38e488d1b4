"""The one way to write to Kafka: acknowledged by all in-sync replicas, or an error."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from kb_shared.errors import PermanentError, TransientError
from kb_shared.kafka.headers import Headers, to_wire

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Producer:
    """Sends messages and waits until they are safe.

    Args:
        bootstrap_servers: `host:port`, several joined by commas.
        idempotence: keeps the client's own retries from writing twice or out of order. Off for brokers without it.
        max_request_bytes: the largest message, key and headers included, that is sent at all.
        request_timeout_ms: how long an acknowledgement may take.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        idempotence: bool,
        max_request_bytes: int = 1_048_576,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self._options = {
            "bootstrap_servers": bootstrap_servers,
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
        client = AIOKafkaProducer(**self._options)
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
            PermanentError: it is too large.
        """
        await self.send_all([Message(topic, key, value, headers)])

    async def send_all(self, messages: Sequence[Message]) -> None:
        """Return once every message is acknowledged; messages of one key arrive in the order given.

        Raises:
            TransientError, PermanentError: as `send`, for the first that failed; the others may have been written.
        """
        acknowledgements: list[asyncio.Future[Any]] = []
        try:
            for message in messages:
                acknowledgements.append(await self._hand_over(message))  # noqa: PERF401  # kept if a later one fails
        except KafkaError as error:
            await asyncio.gather(*acknowledgements, return_exceptions=True)
            raise _as_ours(error) from error
        for outcome in await asyncio.gather(*acknowledgements, return_exceptions=True):
            if isinstance(outcome, KafkaError):
                raise _as_ours(outcome) from outcome
            if isinstance(outcome, BaseException):
                raise outcome

    async def _hand_over(self, message: Message) -> asyncio.Future[Any]:
        """Queue the message; the future is done with its acknowledgement."""
        acknowledgement: asyncio.Future[Any] = await self._client.send(
            message.topic, key=message.key, value=message.value, headers=to_wire(message.headers)
        )
        return acknowledgement


def _as_ours(error: KafkaError) -> TransientError | PermanentError:
    # The type alone: the client library's messages may quote what was sent.
    if isinstance(error, TOO_LARGE):
        return PermanentError(f"the message is too large for Kafka ({type(error).__name__})")
    return TransientError(f"Kafka did not take the message ({type(error).__name__})")
