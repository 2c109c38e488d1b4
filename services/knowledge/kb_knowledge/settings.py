from typing import Self

from pydantic import Field, model_validator

from kb_shared.chat.models import is_allowed
from kb_shared.settings import ChatSettings, HttpSettings, KnowledgeBaseSettings


class KnowledgeStoreSettings(KnowledgeBaseSettings):
    """Settings of the service and of the runner of its sources."""

    max_knowledge_entries: int = Field(default=100_000, ge=0)
    """Limit per organization; 0: no limit."""


class KnowledgeSettings(KnowledgeStoreSettings, ChatSettings, HttpSettings):
    chat_model: str = "gpt-4o-mini"
    """Model that structures a text if the request names none."""
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

    @model_validator(mode="after")
    def _default_model_is_allowed(self) -> Self:
        if self.chat_models is not None and not is_allowed(self.chat_model, self.chat_models):
            raise ValueError("KB_CHAT_MODEL names a model that KB_CHAT_MODELS does not allow: change one of them")
        return self
