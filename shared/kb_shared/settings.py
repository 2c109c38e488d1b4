"""Settings every service shares, read from the environment with the prefix `KB_`."""

import importlib.util
from typing import Literal

from pydantic import SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class CommonSettings(BaseSettings):
    """What it takes to reach the other parts. Each service adds its own."""

    model_config = SettingsConfigDict(env_prefix="KB_", extra="ignore")

    mongo_uri: str = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
    mongo_database: str = "kb"
    kafka: str = "127.0.0.1:9092"
    kafka_topic_prefix: str = ""
    kafka_replication_factor: int = 1
    """Of topics that a service creates because they are missing; 3 in production."""
    kafka_idempotence: bool = True
    """Off only for a broker without it, as the local one."""
    kafka_leave_group: bool = True
    """Off only for a broker whose groups do not survive it, as the local one."""
    kafka_session_timeout_ms: int = 30_000
    kafka_fetch_max_wait_ms: int = 500
    http_host: str = "127.0.0.1"
    http_port: int = 0
    log_level: str = "INFO"


class EmbeddingSettings(CommonSettings):
    """For services that turn text into vectors."""

    local_models_api_base: str | None = None
    """OpenAI-compatible address, ending in `/v1`, that serves the local models and `hash-<dimensions>`."""
    embedding_cache_scope: Literal["organization", "global"] = "organization"
    embedding_timeout_s: float = 60.0
    provider_keys: SecretStr | None = None
    """Seals organizations' keys of providers: `<key id>:<base64 of 32 bytes>`, joined by commas; the first seals."""
    allow_private_providers: bool = False
    """Whether an organization may name an address of its provider that is not https and public."""
    late_models: dict[str, str] = {}
    """By name, the folder (or the name at the hub) of models of sentence-transformers, for the `late` chunker."""

    @field_validator("late_models")
    @classmethod
    def _installed(cls, value: dict[str, str]) -> dict[str, str]:
        if value and importlib.util.find_spec("sentence_transformers") is None:
            raise ValueError("takes sentence-transformers: install kb-shared with its extra `late`")
        return value


class ChatSettings(EmbeddingSettings):
    """For services that ask chat models."""

    chat_timeout_s: float = 60.0
    """Of one call, until the last piece of its answer."""
    chat_patience_s: float = 10.0
    """How long a call is tried again while its provider fails."""


class HttpSettings(CommonSettings):
    """For services that answer people."""

    api_key_pepper: SecretStr = SecretStr("local-pepper")
    """Keeps stolen `api_keys` rows useless; set your own in production."""
