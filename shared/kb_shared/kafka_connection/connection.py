"""Defines the connection to a Kafka cluster: addresses, security protocol, and files with the credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from kb_shared.kafka_connection.files import UnusableFile, read_secret
from kb_shared.kafka_connection.tls import TlsFiles

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""Codec with which a producer compresses batches; consumers read all of them."""

ENVIRONMENT_PREFIX: Final = "KB_KAFKA_"
DEFAULT_BOOTSTRAP_SERVERS: Final = "127.0.0.1:9092"


class UnusableKafkaConnection(ValueError):
    """Setting that is missing, has no effect, or names a file that can't be used. `str()` names the setting."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Connection settings of all Kafka clients of a process.

    Secrets are in files. A client reads the files whenever it opens a connection, so a new password, token or
    certificate is used without a restart. Errors name a field by its environment variable, such as
    `KB_KAFKA_SASL_USERNAME` for `sasl_username`.

    Raises:
        UnusableKafkaConnection: a setting is missing or would have no effect. The files are not read.
    """

    bootstrap_servers: str
    """Addresses as `host:port`, joined by commas."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism | None = None
    sasl_username: str | None = None
    sasl_username_file: Path | None = None
    sasl_password_file: Path | None = None
    sasl_token_file: Path | None = None
    ssl_ca_file: Path | None = None
    """Certificates of the authorities that signed the brokers' certificates; by default those of the system."""
    ssl_certificate_file: Path | None = None
    """Client certificate with its chain, and the private key unless `ssl_key_file` has it."""
    ssl_key_file: Path | None = None
    ssl_key_password_file: Path | None = None

    def __post_init__(self) -> None:
        self._check_sasl()
        self._check_tls()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read `KB_KAFKA`, `KB_KAFKA_SECURITY_PROTOCOL` and so on, as the services do. Empty means not set.

        Raises:
            UnusableKafkaConnection: a setting is missing or would have no effect.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            if value := environment.get(_variable(field.name)):
                given[field.name] = Path(value) if field.name.endswith("_file") else value
        return cls(environment.get("KB_KAFKA") or DEFAULT_BOOTSTRAP_SERVERS, **given)

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def tls_files(self) -> TlsFiles:
        return TlsFiles(self.ssl_ca_file, self.ssl_certificate_file, self.ssl_key_file, self.ssl_key_password_file)

    def check_files(self) -> None:
        """Read every file once.

        Raises:
            UnusableKafkaConnection: a file can't be read or used.
        """
        for name in ("sasl_username_file", "sasl_password_file", "sasl_token_file"):
            path: Path | None = getattr(self, name)
            if path is not None:
                try:
                    read_secret(path)
                except UnusableFile as error:
                    raise UnusableKafkaConnection(f"{_variable(name)}: {error}") from None
        if self.uses_tls:
            try:
                self.tls_files.load()
            except UnusableFile as error:
                raise UnusableKafkaConnection(f"{ENVIRONMENT_PREFIX}SSL_*: {error}") from None

    def _check_sasl(self) -> None:
        self._one_of("security_protocol", get_args(SecurityProtocol))
        if not self.uses_sasl:
            for name in _names("sasl_"):
                self._refuse(name, f"{_variable('security_protocol')} is not SASL_PLAINTEXT or SASL_SSL")
            return
        self._one_of("sasl_mechanism", get_args(SaslMechanism))
        if self.sasl_mechanism == "OAUTHBEARER":
            self._require("sasl_token_file")
            for name in ("sasl_username", "sasl_username_file", "sasl_password_file"):
                self._refuse(name, f"{_variable('sasl_mechanism')} is OAUTHBEARER")
            return
        self._refuse("sasl_token_file", f"{_variable('sasl_mechanism')} is not OAUTHBEARER")
        self._require("sasl_password_file")
        if (self.sasl_username is None) == (self.sasl_username_file is None):
            raise UnusableKafkaConnection(
                f"set one of {_variable('sasl_username')} and {_variable('sasl_username_file')}, and not both"
            )

    def _check_tls(self) -> None:
        if not self.uses_tls:
            for name in _names("ssl_"):
                self._refuse(name, f"{_variable('security_protocol')} is not SSL or SASL_SSL")
        if self.ssl_certificate_file is None:
            self._refuse("ssl_key_file", f"{_variable('ssl_certificate_file')} is not set")
            self._refuse("ssl_key_password_file", f"{_variable('ssl_certificate_file')} is not set")

    def _one_of(self, name: str, values: tuple[str, ...]) -> None:
        if getattr(self, name) not in values:
            raise UnusableKafkaConnection(f"{_variable(name)} must be one of {', '.join(values)}")

    def _require(self, name: str) -> None:
        if getattr(self, name) is None:
            raise UnusableKafkaConnection(
                f"{_variable(name)} is missing: {_variable('sasl_mechanism')} is {self.sasl_mechanism}"
            )

    def _refuse(self, name: str, reason: str) -> None:
        if getattr(self, name) is not None:
            raise UnusableKafkaConnection(f"{_variable(name)} has no effect, because {reason}")


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper()


def _names(prefix: str) -> list[str]:
    return [field.name for field in fields(KafkaConnection) if field.name.startswith(prefix)]
