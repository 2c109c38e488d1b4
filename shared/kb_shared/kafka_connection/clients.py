"""Makes the clients of Kafka that a connection describes. Nothing else does."""

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient

from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.kafka_connection.files import read_secret
from kb_shared.kafka_connection.tls import ReloadingContext


def producer_client(connection: KafkaConnection, **options: Any) -> Any:
    """Make a producer, not started yet; to be called where an event loop runs."""
    client = AIOKafkaProducer(**_options(connection), **options)
    _read_password_when_connecting(client.client, connection)
    return client


def consumer_client(connection: KafkaConnection, *topics: str, **options: Any) -> Any:
    """Make a consumer, not started yet; to be called where an event loop runs."""
    client = AIOKafkaConsumer(*topics, **_options(connection), **options)
    _read_password_when_connecting(client._client, connection)  # noqa: SLF001  # public nowhere
    return client


def admin_client(connection: KafkaConnection, **options: Any) -> Any:
    """Make an admin client, not started yet; to be called where an event loop runs."""
    client = AIOKafkaAdminClient(**_options(connection), **options)
    _read_password_when_connecting(client._client, connection)  # noqa: SLF001  # public nowhere
    return client


class _TokenOfFile(AbstractTokenProvider):  # type: ignore[misc]  # the client library has no types
    """Gives the token of a file, as it is when a connection is opened."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    async def token(self) -> str:
        assert self._connection.sasl_token_file is not None
        return read_secret(self._connection.sasl_token_file).strip()


class _ClientWithFiles(AIOKafkaClient):  # type: ignore[misc]  # the client library has no types
    """A client that reads user and password when it opens a connection.

    The client library takes them from these two attributes each time; it has no other place to give them later.
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
        # The client library wants some at once; `_ClientWithFiles` gives those that are used.
        options |= {"sasl_plain_username": "", "sasl_plain_password": ""}
    return options


def _read_password_when_connecting(client: Any, connection: KafkaConnection) -> None:
    if connection.sasl_password_file is not None:
        # The client library makes its AIOKafkaClient itself and offers no way to give it another.
        client.__class__ = _ClientWithFiles
        client.kb_connection = connection
