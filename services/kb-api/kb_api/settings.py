from typing import Annotated

from pydantic import Field, SecretStr

from kb_shared.settings import EmbeddingSettings, HttpSettings


class ApiSettings(EmbeddingSettings, HttpSettings):
    embedding_model: str = "text-embedding-3-small"
    """Of a KB whose creator names none; `default_chunk_size` and `default_chunk_overlap` likewise, in tokens."""
    default_chunk_size: int = 512
    default_chunk_overlap: int = 128
    max_knowledge_bases: int = 20
    """An organization may have: each takes two search indexes, of which a cluster has few."""
    max_chunks_per_document: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    """Of every KB: one can only ask for less."""
    max_text_bytes: int = 20_000_000
    """Of a text that comes by itself and not in an event."""
    max_api_keys: int = Field(default=1_000, ge=0)
    """Of an organization, revoked and expired ones not counted; 0, here and below: no limit."""
    max_tags: int = Field(default=10_000, ge=0)
    """Of an organization. Documents that name more tags make them known all the same."""
    max_stored_bytes: int = Field(default=20_000_000_000, ge=0)
    """Of all texts of an organization, for those that come over HTTP."""
    life_cycle_interval_s: float = 0.5
    operator_organization: str | None = None
    """Whose admin keys also see dead letters that can't be told to be any organization's."""
    bootstrap_admin_key: SecretStr | None = None
    """A whole key, `kb_<key id>_<secret>`, of `bootstrap_organization`; created at start unless it is there."""
    bootstrap_organization: str | None = None
