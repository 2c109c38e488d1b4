from typing import Annotated

from pydantic import Field, SecretStr

from kb_shared.settings import HttpSettings, KnowledgeBaseSettings


class ApiSettings(KnowledgeBaseSettings, HttpSettings):
    max_knowledge_bases: int = 20
    """Greatest number of KBs of an organization: each takes two search indexes, of which a cluster has few."""
    max_text_bytes: int = 20_000_000
    """Limit of a text that is stored by itself and not in an event."""
    max_api_keys: int = Field(default=1_000, ge=0)
    """Limit per organization, without revoked and expired keys; 0, here and below: no limit."""
    max_tags: int = Field(default=10_000, ge=0)
    """Limit per organization. Documents that name more tags create them all the same."""
    max_stored_bytes: int = Field(default=20_000_000_000, ge=0)
    """Limit of all texts of an organization, for those sent over HTTP."""
    max_webhooks: int = Field(default=20, ge=0)
    """Limit per organization."""
    max_event_streams_of_key: Annotated[int, Field(ge=1)] = 10
    """Limit of connections per process that follow `GET /events` with one API key."""
    life_cycle_interval_s: float = 0.5
    operator_organization: str | None = None
    """Organization whose admin keys also see dead letters that belong to no known organization."""
    bootstrap_admin_key: SecretStr | None = None
    """A whole key, `kb_<key id>_<secret>`, of `bootstrap_organization`; created at start unless it is there."""
    bootstrap_organization: str | None = None
