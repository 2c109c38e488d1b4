"""Settings every service shares, read from the environment with the prefix `KB_`."""

import importlib.util
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from kb_shared.kafka_connection.connection import (
    DEFAULT_BOOTSTRAP_SERVERS,
    KafkaConnection,
    SaslMechanism,
    SecurityProtocol,
)
from kb_shared.prices import MAX_USD, ModelPrice, Prices
from kb_shared.secrets.peppers import Peppers


class CommonSettings(BaseSettings):
    """Settings to reach MongoDB and Kafka. Each service adds its own."""

    # Of what is wrong the name is told and not the value: among the settings are secrets.
    model_config = SettingsConfigDict(env_prefix="KB_", extra="ignore", hide_input_in_errors=True)
    uses_kafka: ClassVar[bool] = True

    mongo_uri: str = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
    mongo_database: str = "kb"
    kafka: str = DEFAULT_BOOTSTRAP_SERVERS
    kafka_security_protocol: SecurityProtocol = "PLAINTEXT"
    kafka_sasl_mechanism: SaslMechanism | None = None
    kafka_sasl_username: str | None = None
    kafka_sasl_username_file: Path | None = None
    kafka_sasl_password_file: Path | None = None
    kafka_sasl_token_file: Path | None = None
    kafka_ssl_ca_file: Path | None = None
    kafka_ssl_certificate_file: Path | None = None
    kafka_ssl_key_file: Path | None = None
    kafka_ssl_key_password_file: Path | None = None
    kafka_topic_prefix: str = ""
    kafka_replication_factor: int | None = None
    """Replicas of topics that a service creates because they are missing; default 3, or all brokers if fewer."""
    kafka_idempotence: bool = True
    """Off only for a broker without it, as the local one."""
    kafka_leave_group: bool = True
    """Off only for a broker whose groups do not survive it, as the local one."""
    kafka_session_timeout_ms: int = 30_000
    kafka_fetch_max_wait_ms: int = 500
    http_host: str = "127.0.0.1"
    http_port: int = 0
    http_max_connections: Annotated[int, Field(ge=1)] = 2_000
    """Open at once. A new one beyond them closes the one that has waited longest without a request."""
    http_head_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """From the first byte of a request to the end of its headers."""
    http_body_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """From the end of the headers to the end of the body; and a second more for each 100,000 bytes that have come."""
    log_level: str = "INFO"

    @field_validator(
        "kafka_sasl_mechanism",
        "kafka_sasl_username",
        "kafka_sasl_username_file",
        "kafka_sasl_password_file",
        "kafka_sasl_token_file",
        "kafka_ssl_ca_file",
        "kafka_ssl_certificate_file",
        "kafka_ssl_key_file",
        "kafka_ssl_key_password_file",
        "kafka_replication_factor",
        mode="before",
    )
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _kafka_connection_is_usable(self) -> Self:
        if self.uses_kafka:
            self.kafka_connection.check_files()
        return self

    @property
    def kafka_connection(self) -> KafkaConnection:
        """How to reach Kafka."""
        return KafkaConnection(
            self.kafka,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            sasl_username=self.kafka_sasl_username,
            sasl_username_file=self.kafka_sasl_username_file,
            sasl_password_file=self.kafka_sasl_password_file,
            sasl_token_file=self.kafka_sasl_token_file,
            ssl_ca_file=self.kafka_ssl_ca_file,
            ssl_certificate_file=self.kafka_ssl_certificate_file,
            ssl_key_file=self.kafka_ssl_key_file,
            ssl_key_password_file=self.kafka_ssl_key_password_file,
        )


class EmbeddingSettings(CommonSettings):
    """For services that turn text into vectors."""

    local_models_api_base: str | None = None
    """OpenAI-compatible address, ending in `/v1`, that serves the local models and `hash-<dimensions>`."""
    embedding_cache_scope: Literal["organization", "global"] = "organization"
    embedding_timeout_s: float = 60.0
    provider_keys: SecretStr | None = None
    """Seals organizations' keys of providers: `<key id>:<base64 of 32 bytes>`, joined by commas; the first seals."""
    allow_private_providers: bool = False
    """True if an organization may name an address of its provider that is not https and public."""
    late_models: dict[str, str] = {}
    """By name, the folder (or the name at the hub) of models of sentence-transformers, for the `late` chunker."""

    usd_per_spu: float | None = Field(default=None, ge=0, le=MAX_USD, allow_inf_nan=False)
    """Price of an embedding of any model without a price in `model_prices`; None: as in LiteLLM's table."""
    model_prices: dict[str, ModelPrice] = {}
    """By the name of an embedding or chat model, in US dollars for a million tokens, instead of LiteLLM's table."""

    @property
    def prices(self) -> Prices:
        """Return the prices of models as the deployment sets them."""
        return Prices(self.usd_per_spu, self.model_prices)

    @field_validator("late_models")
    @classmethod
    def _installed(cls, value: dict[str, str]) -> dict[str, str]:
        if value and importlib.util.find_spec("sentence_transformers") is None:
            raise ValueError("takes sentence-transformers: install kb-shared with its extra `late`")
        return value


class ChatSettings(EmbeddingSettings):
    """For services that ask chat models."""

    chat_timeout_s: float = 60.0
    """Time limit of one call, until the last piece of its answer."""
    chat_patience_s: float = 10.0
    """How long a call is repeated while its provider fails, and how long it waits for the limits of its model."""
    chat_models: Annotated[tuple[str, ...] | None, NoDecode] = None
    """Names or patterns, joined by commas, of the chat models that organizations may use; None: all."""

    @field_validator("chat_models", mode="before")
    @classmethod
    def _split_by_commas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name for each in value.split(",") if (name := each.strip()))
        # An empty list could be meant as "none" or as "all", and the difference is money.
        if not names:
            raise ValueError("name at least one chat model, or leave it unset to allow all")
        return names


class HttpSettings(CommonSettings):
    """For services that answer people."""

    api_key_pepper: SecretStr = SecretStr("local-pepper")
    """Keeps stolen `api_keys` rows useless; set your own in production."""
    api_key_former_peppers: list[SecretStr] = []
    """Peppers that `api_key_pepper` has replaced, while keys are in use whose hashes were made with them."""
    api_key_next_pepper: SecretStr | None = None
    """Pepper that some replicas have as `api_key_pepper` already, or will have soon."""
    http_max_requests: Annotated[int, Field(ge=1)] = 500
    """Worked on at once by this process, without streams."""
    http_max_requests_of_organization: Annotated[int, Field(ge=1)] = 50
    """Limit per organization."""
    http_max_streams: Annotated[int, Field(ge=1)] = 500
    """Runs and calls of MCP that this process works on at once."""
    http_max_streams_of_organization: Annotated[int, Field(ge=1)] = 50
    """Limit per organization."""
    http_max_active_of_organization: Annotated[int, Field(ge=1)] = 2
    """Requests of one organization that this process works on while other organizations call, too; more of them wait.
    What waits for a provider does not count."""
    administrative_calls_per_minute_of_key: int = Field(default=6_000, ge=0)
    """0, here and below: no limit. Administrative is all but searches, runs and what is said of documents."""
    administrative_calls_per_minute_of_organization: int = Field(default=12_000, ge=0)
    failed_authentications_per_minute_of_address: int = Field(default=1_000, ge=0)
    """Limit per process. Only failures are refused, never a valid key."""
    failed_authentications_per_minute_of_key: int = Field(default=100, ge=0)

    @property
    def peppers(self) -> Peppers:
        """All of them."""
        former = (pepper.get_secret_value() for pepper in self.api_key_former_peppers)
        coming = self.api_key_next_pepper.get_secret_value() if self.api_key_next_pepper else None
        return Peppers(self.api_key_pepper.get_secret_value(), tuple(former), coming)
