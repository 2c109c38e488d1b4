"""Settings of `kb export` and `kb import`, by the names and defaults of kb-api; a test compares them."""

from typing import ClassVar, Literal

from kb_shared.settings import CommonSettings


class TransferSettings(CommonSettings):
    uses_kafka: ClassVar[bool] = False

    max_knowledge_bases: int = 20
    max_chunks_per_document: int = 2_000
    max_text_bytes: int = 20_000_000
    embedding_cache_scope: Literal["organization", "global"] = "organization"
