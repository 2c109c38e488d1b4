"""Defines settings that several services share, read from the environment with the prefix `KB_`."""

import importlib.util
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from kb_shared.kafka_connection.connection import (
    DEFAULT_BOOTSTRAP_SERVERS,
    Compression,
    KafkaConnection,
    SaslMechanism,
    SecurityProtocol,
)
from kb_shared.model_patterns import is_allowed
from kb_shared.prices import MAX_USD, ModelPrice, Prices
from kb_shared.secrets.peppers import Peppers


class ServerSettings(BaseSettings):
    """Settings of every service: what it logs, and its HTTP server, which serves health at least."""

    # Errors contain the names of settings and no values, because some are secrets.
    model_config = SettingsConfigDict(env_prefix="KB_", extra="ignore", hide_input_in_errors=True)
    uses_mongodb: ClassVar[bool] = False
    uses_kafka: ClassVar[bool] = False

    environment: Literal["development", "production"] = "development"
    """In production a service refuses to start with settings that are fit for development only."""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    http_max_connections: Annotated[int, Field(ge=1)] = 2_000
    """Limit of open connections. A further one closes the connection that has been idle for longest."""
    http_head_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """Time from the first byte of a request to the end of its headers."""
    http_body_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Time from the end of the headers to the end of the body, plus a second for each 100,000 bytes received."""
    log_level: str = "INFO"


class CommonSettings(ServerSettings):
    """Settings to reach MongoDB and Kafka. Each service adds its own."""

    uses_mongodb: ClassVar[bool] = True
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
    """Replication factor of topics that a service creates; default 3, or the number of brokers if that is lower."""
    kafka_idempotence: bool = True
    """True if the producer is idempotent. False only for a broker that does not support it, such as the local one."""
    kafka_compression: Compression = "none"
    kafka_leave_group: bool = True
    """True if consumers leave their groups at the end. False only for a broker whose groups then fail, such as the
    local one."""
    kafka_unreadable_tries: Annotated[int, Field(ge=1)] = 3
    """Number of fetches of records whose checksum is wrong: damage on the way from the broker is gone at the next."""
    kafka_session_timeout_ms: int = 30_000
    kafka_fetch_max_wait_ms: int = 500

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
        """Return the connection settings of Kafka clients."""
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
    """Settings of services that embed texts."""

    local_models_api_base: str | None = None
    """Address of an OpenAI-compatible server of the local models and `hash-<dimensions>`, ending in `/v1`."""
    embedding_cache_scope: Literal["organization", "global"] = "organization"
    embedding_timeout_s: float = 60.0
    provider_keys: SecretStr | None = None
    """Keys that encrypt provider keys, secrets of webhooks and headers of MCP servers: `<key id>:<base64 of 32 bytes>`,
    joined by commas. The first one encrypts."""
    allow_private_addresses: bool = False
    """Permission for organizations to name addresses that are private or not https, of providers, webhooks, sources."""
    late_models: dict[str, str] = {}
    """Models of sentence-transformers for the `late` chunker: by name, the folder or the name at the hub."""

    usd_per_spu: float | None = Field(default=None, ge=0, le=MAX_USD, allow_inf_nan=False)
    """Price of one embedding, for models without a price in `model_prices`; None: price in LiteLLM's table."""
    model_prices: dict[str, ModelPrice] = {}
    """Prices by name of an embedding or chat model, in US dollars per million tokens, instead of LiteLLM's table."""

    @property
    def prices(self) -> Prices:
        """Return the prices that the deployment sets."""
        return Prices(self.usd_per_spu, self.model_prices)

    @field_validator("late_models")
    @classmethod
    def _installed(cls, value: dict[str, str]) -> dict[str, str]:
        if value and importlib.util.find_spec("sentence_transformers") is None:
            raise ValueError("requires sentence-transformers: install kb-shared with its extra `late`")
        return value


class KnowledgeBaseSettings(EmbeddingSettings):
    """Settings of services that store new KBs: the defaults of a KB."""

    embedding_model: str = "text-embedding-3-small"
    """Model of a KB that names none; `default_chunk_size` and `default_chunk_overlap` likewise, in tokens."""
    default_chunk_size: int = 512
    default_chunk_overlap: int = 128
    max_chunks_per_document: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    """Limit of every KB; a KB can only set a lower one."""


class ChatSettings(EmbeddingSettings):
    """Settings of services that call chat models."""

    chat_model: str = "gpt-4o-mini"
    """Model of a prompt, agent, run or check-in that names none."""
    chat_timeout_s: float = 60.0
    """Time limit of one call, until the end of its answer."""
    chat_patience_s: float = 10.0
    """Time for which a call is repeated while its provider fails, or waits for the limits of its model."""
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

    @model_validator(mode="after")
    def _default_model_is_allowed(self) -> Self:
        if self.chat_models is not None and not is_allowed(self.chat_model, self.chat_models):
            raise ValueError("KB_CHAT_MODEL names a model that KB_CHAT_MODELS does not allow: change one of them")
        return self


class HttpSettings(CommonSettings):
    """Settings of services that serve HTTP."""

    api_key_pepper: SecretStr = SecretStr("local-pepper")
    """Secret in the hashes of API keys, so that stolen rows are useless. Set your own in production."""
    api_key_former_peppers: list[SecretStr] = []
    """Former values of `api_key_pepper`, while keys with their hashes are in use."""
    api_key_next_pepper: SecretStr | None = None
    """Next value of `api_key_pepper`, which some replicas may use already."""
    http_max_requests: Annotated[int, Field(ge=1)] = 500
    """Limit of concurrent requests per process, without streams."""
    http_max_requests_of_organization: Annotated[int, Field(ge=1)] = 50
    """Limit per organization."""
    http_max_streams: Annotated[int, Field(ge=1)] = 500
    """Limit of concurrent runs and MCP calls per process."""
    http_max_streams_of_organization: Annotated[int, Field(ge=1)] = 50
    """Limit per organization."""
    http_max_active_of_organization: Annotated[int, Field(ge=1)] = 2
    """Limit of concurrent requests of one organization while other organizations call, too; the others wait. Requests
    that wait for a provider do not count."""
    administrative_calls_per_minute_of_key: int = Field(default=6_000, ge=0)
    """Limit of calls other than searches, runs and calls about documents. 0, here and below: no limit."""
    administrative_calls_per_minute_of_organization: int = Field(default=12_000, ge=0)
    failed_authentications_per_minute_of_address: int = Field(default=1_000, ge=0)
    """Limit per process. Only failed authentications are refused, never a valid key."""
    failed_authentications_per_minute_of_key: int = Field(default=100, ge=0)

    @property
    def peppers(self) -> Peppers:
        """Return the current, former and next pepper."""
        former = (pepper.get_secret_value() for pepper in self.api_key_former_peppers)
        coming = self.api_key_next_pepper.get_secret_value() if self.api_key_next_pepper else None
        return Peppers(self.api_key_pepper.get_secret_value(), tuple(former), coming)
