"""Creates all Kafka clients, from the settings of a connection."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest

from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.kafka_connection.fetched_batches import FetchedBatches
from kb_shared.kafka_connection.files import read_secret
from kb_shared.kafka_connection.tls import ReloadingContext

AFTER_CANCELLATION_S: Final = 1.0
UNREADABLE_TRIES: Final = 3


def producer_client(connection: KafkaConnection, **options: Any) -> Any:
    """Create a producer, which is not started yet. Call it in a running event loop."""
    client = AIOKafkaProducer(**_options(connection), **options)
    _configure(client.client, connection)
    return client


def consumer_client(
    connection: KafkaConnection, *topics: str, unreadable_tries: int = UNREADABLE_TRIES, **options: Any
) -> Any:
    """Create a consumer, which is not started yet. Call it in a running event loop.

    Args:
        connection: to the cluster.
        topics: to read.
        unreadable_tries: fetches of records whose checksum is wrong before they are given up.
        options: of the client library.
    """
    # The checksums are checked by `FetchedBatches`.
    client = AIOKafkaConsumer(*topics, **_options(connection), check_crcs=False, **options)
    _configure(client._client, connection)  # noqa: SLF001  # public nowhere
    client._client.kb_fetched = FetchedBatches(tries=unreadable_tries)  # noqa: SLF001  # public nowhere
    return client


def admin_client(connection: KafkaConnection, **options: Any) -> Any:
    """Create an admin client, which is not started yet. Call it in a running event loop."""
    client = AIOKafkaAdminClient(**_options(connection), **options)
    _configure(client._client, connection)  # noqa: SLF001  # public nowhere
    return client


class _TokenOfFile(AbstractTokenProvider):  # type: ignore[misc]  # the client library has no types
    """Reads the token from its file whenever a connection is opened."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    async def token(self) -> str:
        assert self._connection.sasl_token_file is not None
        return read_secret(self._connection.sasl_token_file).strip()


class _KafkaClient(AIOKafkaClient):  # type: ignore[misc]  # the client library has no types
    """Makes fetched records readable, and handles cancellations.

    It leaves no connection open when its start is cancelled, and loses no cancellation while it closes.
    """

    kb_fetched: FetchedBatches | None = None

    async def send(self, node_id: int, request: Any, **options: Any) -> Any:
        """Send a request, and make what it fetches readable for the client library."""
        response = await super().send(node_id, request, **options)
        if self.kb_fetched is not None and isinstance(request, FetchRequest):
            self.kb_fetched.make_readable(request, response)
        return response

    async def bootstrap(self) -> None:
        """Connect to the first broker that answers.

        The client library closes its first connection after the answer only.
        """
        await _complete(super().bootstrap())

    async def close(self) -> None:
        """Close all connections.

        The client library takes a cancellation of its caller for that of its own task, and goes on.
        """
        await _complete(super().close())


async def _complete(step: Coroutine[Any, Any, None]) -> None:
    """Await a step that must not be cancelled midway; after a cancellation, for one second more."""
    running = asyncio.ensure_future(step)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running], timeout=AFTER_CANCELLATION_S)
        raise
    finally:
        running.cancel()


class _KafkaClientWithFiles(_KafkaClient):
    """Reads user and password whenever it opens a connection.

    The client library reads these two attributes each time, and offers no other way to change them later.
    """

    kb_connection: KafkaConnection

    @property
    def _sasl_plain_username(self) -> str:
        if self.kb_connection.sasl_username is not None:
            return self.kb_connection.sasl_username
        assert self.kb_connection.sasl_username_file is not None
        return read_secret(self.kb_connection.sasl_username_file)

    @property
    def _sasl_plain_password(self) -> str:
        assert self.kb_connection.sasl_password_file is not None
        return read_secret(self.kb_connection.sasl_password_file)


def _options(connection: KafkaConnection) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": connection.bootstrap_servers,
        "security_protocol": connection.security_protocol,
    }
    if connection.uses_tls:
        options["ssl_context"] = ReloadingContext(connection.tls_files)
    if connection.uses_sasl:
        options["sasl_mechanism"] = connection.sasl_mechanism
    if connection.sasl_token_file is not None:
        options["sasl_oauth_token_provider"] = _TokenOfFile(connection)
    elif connection.uses_sasl:
        # The client library requires values here; `_KafkaClientWithFiles` returns those that are used.
        options |= {"sasl_plain_username": "", "sasl_plain_password": ""}
    return options


def _configure(client: Any, connection: KafkaConnection) -> None:
    # The client library creates its AIOKafkaClient itself and offers no way to pass another one.
    if connection.sasl_password_file is None:
        client.__class__ = _KafkaClient
    else:
        client.__class__ = _KafkaClientWithFiles
        client.kb_connection = connection
