from pydantic import Field

from kb_shared.settings import ChatSettings, HttpSettings, KnowledgeBaseSettings


class KnowledgeStoreSettings(KnowledgeBaseSettings):
    """Settings of the service and of the runner of its sources."""

    max_knowledge_entries: int = Field(default=100_000, ge=0)
    """Limit per organization; 0: no limit."""


class KnowledgeSettings(KnowledgeStoreSettings, ChatSettings, HttpSettings):
    max_entities: int = Field(default=100_000, ge=0)
    """Limit per organization; 0, here and below: no limit."""
    max_graph_nodes: int = Field(default=100_000, ge=0)
    max_graph_edges: int = Field(default=100_000, ge=0)
    max_knowledge_sources: int = Field(default=100, ge=0)
    max_mcp_servers: int = Field(default=20, ge=0)
    pending_check_interval_s: float = Field(default=15.0, gt=0)
    """Seconds between two looks for entries that wait for their embedding provider, and the age of those it finds.

    Also the seconds between two looks for entries of deleted sources.
    """
