from kb_shared.settings import EmbeddingSettings, HttpSettings


class Settings(EmbeddingSettings, HttpSettings):
    search_exact_up_to_chunks: int = 10_000
    """In KBs up to this size a query is compared with every vector; beyond, the index walks its graph."""
    search_patience_s: float = 3.0
    """How long a search waits for an embedding provider that fails, before it says so."""
