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
    life_cycle_interval_s: float = 0.5
    operator_organization: str | None = None
    """Whose admin keys also see dead letters that can't be told to be any organization's."""
    bootstrap_admin_key: SecretStr | None = None
    """A whole key, `kb_<key id>_<secret>`, of `bootstrap_organization`; created at start unless it is there."""
    bootstrap_organization: str | None = None
