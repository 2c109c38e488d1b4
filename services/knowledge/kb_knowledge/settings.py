from pydantic import Field

from kb_shared.settings import HttpSettings, KnowledgeBaseSettings


class KnowledgeSettings(KnowledgeBaseSettings, HttpSettings):
    max_entities: int = Field(default=100_000, ge=0)
    """Limit per organization; 0, here and below: no limit."""
    max_graph_nodes: int = Field(default=100_000, ge=0)
    max_graph_edges: int = Field(default=100_000, ge=0)
    max_knowledge_entries: int = Field(default=100_000, ge=0)
    """Limit per organization; 0: no limit."""
    pending_check_interval_s: float = Field(default=15.0, gt=0)
    """Seconds between two looks for entries that wait for their embedding provider, and the age of those it finds."""
