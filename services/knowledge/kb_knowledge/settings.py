from pydantic import Field

from kb_shared.settings import HttpSettings, KnowledgeBaseSettings


class KnowledgeStoreSettings(KnowledgeBaseSettings):
    """Settings of the service and of the runner of its sources."""

    max_knowledge_entries: int = Field(default=100_000, ge=0)
    """Limit per organization; 0: no limit."""


class KnowledgeSettings(KnowledgeStoreSettings, HttpSettings):
    max_knowledge_sources: int = Field(default=100, ge=0)
    """Limit per organization; 0: no limit."""
    max_mcp_servers: int = Field(default=20, ge=0)
    """Limit per organization; 0: no limit."""
    pending_check_interval_s: float = Field(default=15.0, gt=0)
    """Seconds between two looks for entries that wait for their embedding provider, and the age of those it finds."""
