from pydantic import Field

from kb_shared.observability.knowledge_base_series import DEFAULT_LIMIT
from kb_shared.settings import EmbeddingSettings


class IndexerSettings(EmbeddingSettings):
    max_in_flight: int = 32
    """Documents worked on at once at most; the bulk lane gets what the live one leaves, at least a tenth."""
    job_lease_s: float = 15.0
    """Length of a lease. After a crash of its worker, a document or scan waits for this time and for a sweep."""
    sweep_interval_s: float = 1.0
    max_documents_of_knowledge_base: int = Field(default=1_000_000, ge=0)
    """Greatest number of documents of a KB. 0, here and below, means no limit."""
    max_chunks_of_knowledge_base: int = Field(default=5_000_000, ge=0)
    organizations_from_events: bool = False
    """Permission for events to create organizations. Without it, an event of an organization without an API key and
    without a KB becomes a dead letter, `unknown-organization`."""
    metrics_max_kb: int = Field(default=DEFAULT_LIMIT, ge=0)
    """Number of KBs with metrics of their own; those of further ones have `kb_id="_other"`."""
    metrics_clean_interval_s: float = Field(default=60.0, gt=0)
